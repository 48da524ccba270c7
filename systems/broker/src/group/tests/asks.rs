//! What the words of a transcript ask of the coordinator.

use super::*;

impl Play {
    pub(super) fn client(&mut self, name: &str, verb: &str, words: &Words<'_>) -> Option<String> {
        let mut client = self.clients.entry(name.to_owned()).or_default().clone();
        if let Some(id) = words.get("id") {
            let known = self.clients.get(id).map(|other| other.member_id.clone());
            client.member_id = known.unwrap_or_else(|| id.trim_matches('-').to_owned());
        }
        if let Some(instance) = words.get("instance") {
            client.instance_id = Some(instance.to_owned()).filter(|it| it != "-");
            self.clients.get_mut(name).expect("just made").instance_id = client.instance_id.clone();
        }
        let generation = words.int("gen", client.generation);
        match verb {
            "ask" | "ack" | "quit" | "away" => self.consumer_heartbeat(name, client, verb, words),
            "join" => self.join(name, client, words),
            "sync" => self.sync(name, client, generation, words),
            "beat" => {
                let request = HeartbeatRequest {
                    group_id: GROUP.to_owned(),
                    generation_id: generation,
                    member_id: client.member_id,
                    group_instance_id: client.instance_id,
                };
                let response = self.coordinator.heartbeat(self.now_ns, &request);
                return Some(format!("{name}: beat {}", response.error_code));
            }
            "deaf" => {
                let to = self.reply_to(name);
                self.coordinator.goes_on_waiting(&client.member_id, to);
                return None;
            }
            "leave" => return Some(self.leave(name, client, words)),
            "commit" => self.commit(name, client, generation, words),
            _ => panic!("no such verb: {verb}"),
        }
        None
    }

    fn join(&mut self, name: &str, client: Client, words: &Words<'_>) {
        let protocols = words.get("protocols").unwrap_or("range").split(',').map(|protocol| {
            let (name, metadata) = protocol.split_once('/').unwrap_or((protocol, ""));
            JoinGroupRequestProtocol { name: name.to_owned(), metadata: metadata.to_owned().into() }
        });
        let request = JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: words.int("session", 10_000),
            rebalance_timeout_ms: words.int("rebalance", 20_000),
            member_id: client.member_id,
            group_instance_id: client.instance_id,
            protocol_type: words.get("type").unwrap_or("consumer").to_owned(),
            protocols: protocols.collect(),
            reason: None,
        };
        let caller = Caller {
            reply_to: self.reply_to(name),
            api_version: words.int("v", 9) as i16,
            client_id: name.to_owned(),
            client_host: "host".to_owned(),
        };
        let drawn = &mut self.drawn;
        let mut random = || {
            *drawn += 1;
            // Two draws an id; the first is the high half, which stays 0.
            if *drawn % 2 == 1 { 0 } else { *drawn - 2 }
        };
        self.coordinator.join_group(self.now_ns, &caller, request, &mut random);
    }

    fn sync(&mut self, name: &str, client: Client, generation_id: i32, words: &Words<'_>) {
        let assignments: Vec<(String, String)> = words
            .0
            .iter()
            .filter_map(|word| {
                let (other, assignment) = word.split_once('=')?;
                Some((self.clients.get(other)?.member_id.clone(), assignment.to_owned()))
            })
            .collect();
        self.sync_with(name, client, generation_id, assignments, words);
    }

    pub(super) fn sync_with(
        &mut self,
        name: &str,
        client: Client,
        generation_id: i32,
        assignments: Vec<(String, String)>,
        words: &Words<'_>,
    ) {
        let assignments = assignments.into_iter().map(|(member_id, assignment)| SyncGroupRequestAssignment {
            member_id,
            assignment: assignment.into(),
        });
        let member = client.instance_id.clone().unwrap_or_else(|| client.member_id.clone());
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id,
            member_id: client.member_id,
            group_instance_id: client.instance_id,
            protocol_type: words.get("type").map(str::to_owned),
            protocol_name: words.get("protocol").map(str::to_owned),
            assignments: assignments.collect(),
        };
        let to = self.reply_about(name, member, generation_id, 0);
        self.coordinator.sync_group(self.now_ns, to, request);
    }

    fn consumer_heartbeat(&mut self, name: &str, client: Client, verb: &str, words: &Words<'_>) {
        let member_id = if client.member_id.is_empty() { name.to_owned() } else { client.member_id };
        let member_epoch = words.int(
            "epoch",
            match verb {
                "quit" => -1,
                "away" => -2,
                _ => client.generation,
            },
        );
        let says_all = client.is_unsure && member_epoch > 0;
        let own = match words.get("own") {
            Some(own) => Some(parsed(own)),
            None if member_epoch == 0 => Some(Vec::new()),
            None if verb == "ack" => Some(client.told.clone()),
            None => says_all.then(|| client.hands.iter().copied().collect()),
        };
        let names = words.0.first().filter(|word| verb == "ask" && !word.contains('='));
        let names: Option<Vec<String>> = names.map(|names| names.split(',').map(str::to_owned).collect());
        let teller = self.clients.get_mut(name).expect("it asks");
        teller.names = names.clone().or(teller.names.take());
        match verb {
            "ack" => teller.hands = teller.told.iter().copied().collect(),
            // Who leaves has stopped consuming, whether it hears of it or not.
            "quit" | "away" => {
                teller.told.clear();
                teller.hands.clear();
            }
            _ => {}
        }
        let mut owned: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic, index) in own.iter().flatten() {
            owned.entry(topic_id(&topic.to_string())).or_default().push(*index);
        }
        let topic =
            |(topic_id, partitions)| ConsumerGroupHeartbeatRequestTopicPartitions { topic_id, partitions };
        let is_full = member_epoch == 0 || says_all;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: if words.get("id") == Some("-") { String::new() } else { member_id },
            member_epoch,
            instance_id: client.instance_id,
            rack_id: None,
            rebalance_timeout_ms: words.int("rebalance", if is_full { 4000 } else { -1 }),
            subscribed_topic_names: names.or(client.names.filter(|_| says_all)),
            subscribed_topic_regex: words.get("regex").map(str::to_owned),
            server_assignor: words.get("assignor").map(str::to_owned),
            topic_partitions: own.map(|_| owned.into_iter().map(topic).collect()),
        };
        let caller = Caller {
            reply_to: self.reply_to(name),
            api_version: words.int("v", 1) as i16,
            client_id: name.to_owned(),
            client_host: "host".to_owned(),
        };
        self.coordinator.consumer_group_heartbeat(self.now_ns, &caller, request, &mut || 7);
    }

    fn leave(&mut self, name: &str, client: Client, words: &Words<'_>) -> String {
        let version = words.int("v", 5) as i16;
        let mut request = LeaveGroupRequest { group_id: GROUP.to_owned(), ..LeaveGroupRequest::default() };
        if version < 3 {
            request.member_id = client.member_id;
        } else {
            // Others may be taken out by the same request.
            let others = words.0.iter().filter_map(|word| self.clients.get(*word).cloned());
            request.members = std::iter::once(client)
                .chain(others)
                .map(|it| LeaveGroupRequestMember {
                    member_id: it.member_id,
                    group_instance_id: it.instance_id,
                    reason: None,
                })
                .collect();
        }
        let response = self.coordinator.leave_group(self.now_ns, version, request);
        let of_members = response.members.iter().map(|member| member.error_code.to_string());
        let codes: Vec<String> = std::iter::once(response.error_code.to_string()).chain(of_members).collect();
        format!("{name}: left {}", codes.join(" "))
    }

    fn commit(&mut self, name: &str, client: Client, generation: i32, words: &Words<'_>) {
        let is_simple = words.has("simple");
        let partitions = words.partitions().map(|(index, offset)| OffsetCommitRequestPartition {
            index,
            committed_offset: offset.expect("an offset"),
            committed_leader_epoch: words.int("epoch", -1),
            committed_metadata: words.get("meta").map(str::to_owned),
        });
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            generation_id_or_member_epoch: if is_simple { -1 } else { generation },
            member_id: if is_simple { String::new() } else { client.member_id },
            group_instance_id: client.instance_id.filter(|_| !is_simple),
            retention_time_ms: -1,
            topics: vec![OffsetCommitRequestTopic { name: "t".to_owned(), partitions: partitions.collect() }],
        };
        let offset = words.partitions().find_map(|(_, offset)| offset).unwrap_or_default();
        let to = self.reply_about(name, String::new(), generation, offset);
        self.coordinator.offset_commit(self.now_ns, to, words.int("v", 9) as i16, request);
    }
}
