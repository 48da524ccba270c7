//! What a coordinator is asked about groups of KIP-848.

use super::{JOIN, OWN_ID_SINCE};
use crate::group::state::State;
use crate::group::{Caller, Coordinator};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{ConsumerGroupDescribeResponseGroup, ConsumerGroupHeartbeatRequest};

impl Coordinator {
    /// Answers, by output. `random` is drawn from for the ids of members that bring none.
    pub fn consumer_group_heartbeat(
        &mut self,
        now_ns: u64,
        caller: &Caller,
        mut request: ConsumerGroupHeartbeatRequest,
        random: &mut dyn FnMut() -> u64,
    ) {
        let to = caller.reply_to;
        if let Err(code) = self.check_consumer_heartbeat(now_ns, &request) {
            let why = (code == ErrorCode::GROUP_ID_NOT_FOUND)
                .then(|| format!("group {} does not exist", request.group_id));
            self.turn(now_ns).refuse_consumer(to, code, why);
            return;
        }
        if request.member_id.is_empty() && caller.api_version < OWN_ID_SINCE {
            request.member_id = format!("{:016x}{:016x}", random(), random());
        }
        let group_id = request.group_id.clone();
        let acted = self.act(now_ns, &group_id, |group, topics, turn| {
            group.consumer_heartbeat(caller, request, topics, turn);
        });
        acted.expect("it was just made sure that there is one");
    }

    fn check_consumer_heartbeat(
        &mut self,
        now_ns: u64,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<(), ErrorCode> {
        if request.group_id.trim().is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.check_loaded()?;
        if self.outbox.in_flight() >= self.config.max_in_flight {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        if request.member_epoch == JOIN {
            self.make_group(now_ns, &request.group_id)
        } else if self.groups.contains_key(&request.group_id) {
            Ok(())
        } else {
            Err(ErrorCode::GROUP_ID_NOT_FOUND)
        }
    }

    /// One group of KIP-848 as an operator sees it.
    pub fn describe_consumer(&self, group_id: &str) -> ConsumerGroupDescribeResponseGroup {
        let refused = |error_code, why: Option<String>| ConsumerGroupDescribeResponseGroup {
            group_id: group_id.to_owned(),
            error_code,
            error_message: why,
            ..ConsumerGroupDescribeResponseGroup::default()
        };
        if let Err(code) = self.check_loaded() {
            return refused(code, None);
        }
        let group = self.groups.get(group_id).filter(|group| group.state != State::Dead);
        match group.map(|group| &group.consumer) {
            Some(Some(consumer)) => consumer.described(group_id, &self.topics.topics),
            Some(None) => refused(
                ErrorCode::GROUP_ID_NOT_FOUND,
                Some(format!("group {group_id} is not a consumer group")),
            ),
            None => refused(ErrorCode::GROUP_ID_NOT_FOUND, Some(format!("group {group_id} does not exist"))),
        }
    }
}
