//! What operators and committers see of a group, and may do.

use super::Consumer;
use super::state::{Durable, Partitions};
use super::step::preferred;
use super::topics::Topics;
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    ConsumerGroupDescribeResponseAssignment, ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember, ConsumerGroupDescribeResponseTopicPartitions,
};

/// The kind of member that speaks the protocol of KIP-848. Source: Kafka's ConsumerGroupDescribe, MemberType.
const CONSUMER: i8 = 1;

impl Consumer {
    pub(in super::super) fn name_of_state(&self) -> &'static str {
        self.durable.name_of_state()
    }

    /// Whether somebody may commit, or fetch, as a member at an epoch.
    pub(in super::super) fn check_member(&self, member_id: &str, epoch: i32) -> Result<(), ErrorCode> {
        match self.durable.members.get(member_id) {
            None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            Some(member) if member.holding.epoch != epoch => Err(ErrorCode::STALE_MEMBER_EPOCH),
            Some(_) => Ok(()),
        }
    }

    /// Who fetches as nobody, may.
    pub(in super::super) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        match member_id {
            None if epoch < 0 => Ok(()),
            member_id => self.check_member(member_id.unwrap_or_default(), epoch),
        }
    }

    pub(in super::super) fn described(
        &self,
        id: &str,
        topics: &Topics,
    ) -> ConsumerGroupDescribeResponseGroup {
        let Durable { epoch, target_epoch, members, target, .. } = &self.durable;
        let members = members.iter().map(|(id, member)| {
            let it = &member.subscription;
            ConsumerGroupDescribeResponseMember {
                member_id: id.clone(),
                instance_id: it.instance_id.clone(),
                rack_id: it.rack_id.clone(),
                member_epoch: member.holding.epoch,
                client_id: it.client_id.clone(),
                client_host: it.client_host.clone(),
                subscribed_topic_names: it.names.iter().cloned().collect(),
                subscribed_topic_regex: it.pattern.clone(),
                assignment: named(&member.holding.assigned, topics),
                target_assignment: target.get(id).map(|it| named(it, topics)).unwrap_or_default(),
                member_type: CONSUMER,
            }
        });
        ConsumerGroupDescribeResponseGroup {
            group_id: id.to_owned(),
            group_state: self.name_of_state().to_owned(),
            group_epoch: *epoch,
            assignment_epoch: *target_epoch,
            assignor_name: preferred(&self.durable).name().to_owned(),
            members: members.collect(),
            ..ConsumerGroupDescribeResponseGroup::default()
        }
    }
}

/// Partitions with their topics' names. Topics that were deleted have none, and are left out.
fn named(partitions: &Partitions, topics: &Topics) -> ConsumerGroupDescribeResponseAssignment {
    let topic = |(topic_id, partitions)| {
        let topic_name = topics.name(topic_id)?.to_owned();
        Some(ConsumerGroupDescribeResponseTopicPartitions { topic_id, topic_name, partitions })
    };
    ConsumerGroupDescribeResponseAssignment {
        topic_partitions: partitions.topics().filter_map(topic).collect(),
    }
}
