//! A mini-language for what happens to a coordinator.
//!
//! A transcript is lines: those that begin with `> ` are what happens, the others are what comes of it.
//!
//! ```text
//! > a join                     client a joins, as the member it was last told to be, else as nobody
//! > a sync a=0,1 b=2           it asks for its assignment, and brings everybody's
//! > a beat | leave             the rest of a member's life
//! > a deaf                     the answer to its join does not reach it; of defect unanswered-join
//! > a commit t0=5 t1=7         it commits offsets of topic t; `simple` commits as no member
//! > fetch t0 | all             what is committed; `stable` asks for what is settled
//! > topics t=3 u=1             there are these topics of so many partitions, from now on
//! > a ask t,u                  a heartbeat of KIP-848: it joins, or wants other topics; alone, it wants nothing new
//! > a ack                      it says that it holds what it was last told, and nothing else
//! > forget t0 t1               an operator deletes committed offsets
//! > a quit | away              it leaves, or leaves for a while
//! > consumers                  the group of KIP-848 as an operator sees it
//! > describe | list | delete   an operator
//! > +300                       time passes. Units: milliseconds
//! > hold                       from now on appends wait for: committed N, refused N CODE
//! > failover                   another broker takes over with what is committed
//! > load                       a coordinator that is still loading takes over; `loaded` ends that
//! ```
//!
//! `key=value` after the verb changes a request: v (version), gen, id, instance, session, rebalance, type, protocols
//! (`range/x,rr` is protocol range with subscription x, and rr), meta. Of KIP-848: epoch, own, regex, assignor; there,
//! clients are called as they are. Member ids of the classic protocol read `a#1`: client a's first id.

mod asks;
mod laws;
mod table;
mod transactional;

use super::record::Entry;
use super::*;
use riprap_protocol::messages::{
    ConsumerGroupDescribeResponseAssignment, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions, JoinGroupRequestProtocol, OffsetCommitRequest,
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetDeleteRequest,
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetFetchRequestGroup, OffsetFetchRequestTopic,
    SyncGroupRequestAssignment,
};
use riprap_protocol::{Message, Uuid};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Runs what happens in a transcript and compares it with what comes of it.
pub(super) fn check(transcript: &str) {
    check_with(GroupConfig::default(), transcript);
}

pub(super) fn check_with(config: GroupConfig, transcript: &str) {
    let lines: Vec<&str> = transcript.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut play = Play::new(config);
    let mut actual = Vec::new();
    for input in lines.iter().filter_map(|line| line.strip_prefix("> ")) {
        actual.push(format!("> {input}"));
        actual.extend(play.run(input));
    }
    let expect = lines.join("\n");
    let actual = actual.join("\n");
    assert!(actual == expect, "expected\n{expect}\n\nactual\n{actual}\n");
}

pub(super) const GROUP: &str = "g";

/// What a client knows of itself.
#[derive(Clone, Default)]
pub(super) struct Client {
    pub(super) member_id: String,
    pub(super) generation: i32,
    instance_id: Option<String>,
    /// The members, if it leads them.
    others: Vec<String>,
    /// What it was last told that it owns, in a group of KIP-848.
    pub(super) told: Vec<(char, i32)>,
    /// What it may be consuming from: what it was told, until it says that it gave it up.
    pub(super) hands: BTreeSet<(char, i32)>,
    /// What it subscribed to last.
    names: Option<Vec<String>>,
    /// Its last heartbeat failed: the next says all again.
    is_unsure: bool,
}

/// A request that waits for its answer.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) who: String,
    /// The member that syncs: a static one keeps its name when it returns.
    member: String,
    generation: i32,
    /// Of a commit.
    offset: i64,
}

/// What was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Joined { generation: i32 },
    Assigned { generation: i32, owner: String, partitions: String },
    Committed { partition: i32, offset: i64 },
    Refused { offset: i64, code: ErrorCode },
    Resigned,
}

pub(super) struct Play {
    config: GroupConfig,
    pub(super) coordinator: Coordinator,
    pub(super) now_ns: u64,
    topics: Arc<Topics>,
    pub(super) clients: BTreeMap<String, Client>,
    /// Who asked, by reply; none once it was answered.
    pub(super) asked: Vec<Option<Asked>>,
    /// What the laws look at.
    seen: Vec<Seen>,
    /// What was drawn so far.
    drawn: u64,
    /// All records that were appended and not refused, with their tokens and whether they are committed.
    pub(super) log: Vec<(AppendToken, Vec<Record>, bool)>,
    holds: bool,
}

/// The `key=value` words of a line.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn int(&self, key: &str, default: i32) -> i32 {
        self.get(key).map_or(default, |value| value.parse().expect("a number"))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    /// Words like `t0=5`, which are offsets of topic t, partition 0.
    fn partitions(&self) -> impl Iterator<Item = (i32, Option<i64>)> {
        self.0.iter().filter_map(|word| {
            let (partition, offset) = match word.split_once('=') {
                Some((partition, offset)) => (partition, Some(offset.parse().ok()?)),
                None => (*word, None),
            };
            Some((partition.strip_prefix('t')?.parse().ok()?, offset))
        })
    }
}

impl Play {
    pub(super) fn new(config: GroupConfig) -> Play {
        let mut coordinator = Coordinator::new(config.clone());
        coordinator.finish_loading(0);
        Play {
            config,
            coordinator,
            now_ns: 0,
            topics: Arc::default(),
            clients: BTreeMap::new(),
            asked: Vec::new(),
            seen: Vec::new(),
            drawn: 0,
            log: Vec::new(),
            holds: false,
        }
    }

    pub(super) fn run(&mut self, input: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut words = input.split_whitespace();
        let first = words.next().expect("a line says something");
        let rest: Vec<&str> = words.collect();
        if let Some(ms) = first.strip_prefix('+') {
            self.pass(ms.parse::<u64>().expect("milliseconds"), &mut lines);
            return lines;
        }
        match first {
            "hold" => self.holds = true,
            "committed" | "refused" => self.settle(first == "committed", &rest),
            "failover" => self.fail_over(true, &mut lines),
            "load" => self.fail_over(false, &mut lines),
            "loaded" => self.coordinator.finish_loading(self.now_ns),
            "fetch" => lines.extend(self.fetch(&Words(rest))),
            "describe" => lines.push(self.describe()),
            "forget" => {
                let to = self.reply_to("forget");
                let words = Words(rest);
                let partitions = words.partitions();
                let partitions =
                    partitions.map(|(index, _)| OffsetDeleteRequestPartition { index }).collect();
                let topics = vec![OffsetDeleteRequestTopic { name: "t".to_owned(), partitions }];
                let request = OffsetDeleteRequest { group_id: GROUP.to_owned(), topics };
                self.coordinator.offset_delete(self.now_ns, to, request);
            }
            "consumers" => lines.push(self.describe_consumers()),
            "topics" => {
                let topic = |word: &&str| {
                    let (name, count) = word.split_once('=').expect("NAME=PARTITIONS");
                    (name.to_owned(), topic_id(name), count.parse().expect("a number"))
                };
                self.topics = Arc::new(Topics::new(rest.iter().map(topic)));
                self.coordinator.know_topics(Arc::clone(&self.topics));
            }
            "list" => {
                let request = ListGroupsRequest::default();
                let listed = self.coordinator.list(&request).map(|groups| {
                    groups
                        .iter()
                        .map(|g| format!("{} {}", g.group_id, g.group_state))
                        .collect::<Vec<_>>()
                        .join(", ")
                });
                let line = format!("groups: {}", listed.unwrap_or_else(|code| code.to_string()));
                lines.push(line.trim_end().to_owned());
            }
            "delete" => {
                let to = self.reply_to("delete");
                self.coordinator.delete_group(self.now_ns, to, GROUP);
            }
            client => {
                let (verb, rest) = rest.split_first().expect("a client does something");
                lines.extend(self.client(client, verb, &Words(rest.to_vec())));
            }
        }
        self.drain(&mut lines);
        lines
    }

    fn reply_to(&mut self, who: &str) -> ReplyTo {
        self.reply_about(who, String::new(), 0, 0)
    }

    fn reply_about(&mut self, who: &str, member: String, generation: i32, offset: i64) -> ReplyTo {
        self.asked.push(Some(Asked { who: who.to_owned(), member, generation, offset }));
        ReplyTo(self.asked.len() as u64 - 1)
    }

    /// Lets time pass, waking the coordinator whenever it asks for it.
    fn pass(&mut self, ms: u64, lines: &mut Vec<String>) {
        let end_ns = self.now_ns + ms * 1_000_000;
        while let Some(at_ns) = self.coordinator.wake_at_ns()
            && at_ns <= end_ns
        {
            self.now_ns = self.now_ns.max(at_ns);
            self.coordinator.tick(self.now_ns);
            self.drain(lines);
            let next = self.coordinator.wake_at_ns();
            assert!(next.is_none_or(|next| next > self.now_ns), "a tick leaves nothing that is due");
        }
        self.now_ns = end_ns;
    }

    fn settle(&mut self, is_committed: bool, words: &[&str]) {
        let token = AppendToken(words[0].parse().expect("an append's number"));
        let at = self.log.iter().position(|(t, _, _)| *t == token).expect("it was appended");
        if is_committed {
            self.log[at].2 = true;
            self.coordinator.appended(self.now_ns, token, Ok(()));
        } else {
            self.log.remove(at);
            self.coordinator.appended(self.now_ns, token, Err(code(words[1])));
        }
    }

    fn fail_over(&mut self, finish: bool, lines: &mut Vec<String>) {
        let mut coordinator = Coordinator::new(self.config.clone());
        coordinator.know_topics(Arc::clone(&self.topics));
        std::mem::swap(&mut coordinator, &mut self.coordinator);
        for output in coordinator.resign() {
            self.output(output, lines);
        }
        self.seen.push(Seen::Resigned);
        assert!(self.asked.iter().all(Option::is_none), "who resigns leaves nobody waiting");
        self.log.retain(|(_, _, is_committed)| *is_committed);
        for record in self.log.iter().flat_map(|(_, records, _)| records) {
            self.coordinator.replay(&record.key, record.value.as_deref(), None).expect("its own records");
        }
        if finish {
            self.coordinator.finish_loading(self.now_ns);
        }
    }

    /// Carries out what the coordinator wants, until it wants no more.
    pub(super) fn drain(&mut self, lines: &mut Vec<String>) {
        loop {
            let outputs = self.coordinator.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.output(output, lines);
            }
        }
    }

    fn output(&mut self, output: Output, lines: &mut Vec<String>) {
        match output {
            Output::Append { token, records, .. } => {
                if self.holds {
                    lines.push(format!("append {}: {}", token.0, self.records(&records)));
                }
                self.log.push((token, records, !self.holds));
                if !self.holds {
                    self.coordinator.appended(self.now_ns, token, Ok(()));
                }
            }
            Output::Reply { to, response } => {
                let asked = self.asked[usize::try_from(to.0).expect("small")].take();
                lines.push(self.reply(&asked.expect("an answer is given once"), response));
            }
        }
    }

    fn records(&self, records: &[Record]) -> String {
        let record = |record: &Record| match Entry::from_record(&record.key, record.value.as_deref()) {
            Ok(Entry::Group { snapshot: Some(it), .. }) => {
                let members: Vec<String> = it.members.keys().map(|id| self.short(id)).collect();
                format!("gen={} [{}]", it.generation, members.join(","))
            }
            Ok(Entry::Group { snapshot: None, .. }) => "no group".to_owned(),
            Ok(Entry::Consumer { entry, .. }) => entry.shown(),
            Ok(Entry::Offset { partition, committed, .. }) => {
                let offset = committed.map_or("none".to_owned(), |it| it.offset.to_string());
                format!("{}{}={offset}", partition.topic, partition.partition)
            }
            Err(e) => e.to_string(),
        };
        records.iter().map(record).collect::<Vec<_>>().join(" ")
    }

    /// `a-000..1` as `a#1`.
    fn short(&self, member_id: &str) -> String {
        match member_id.rsplit_once('-') {
            Some((name, hex)) => {
                let number = u128::from_str_radix(hex, 16).expect("two draws");
                format!("{name}#{}", number as u64 / 2 + 1)
            }
            None => member_id.to_owned(),
        }
    }

    fn reply(&mut self, asked: &Asked, response: Response) -> String {
        let who = &asked.who;
        match response {
            Response::JoinGroup(it) => {
                encodes(&it, if it.skip_assignment { 9 } else { 0 });
                let client = self.clients.entry(who.to_owned()).or_default();
                if !it.error_code.is_none() {
                    if it.error_code == ErrorCode::MEMBER_ID_REQUIRED {
                        client.member_id = it.member_id.clone();
                        return format!("{who}: join MEMBER_ID_REQUIRED {}", self.short(&it.member_id));
                    }
                    return format!("{who}: join {}", it.error_code);
                }
                (client.member_id, client.generation) = (it.member_id.clone(), it.generation_id);
                client.others = it.members.iter().map(|member| member.member_id.clone()).collect();
                self.seen.push(Seen::Joined { generation: it.generation_id });
                let mut line = format!(
                    "{who}: joined gen={} {} leader={}",
                    it.generation_id,
                    it.protocol_name.unwrap_or_default(),
                    self.short(&it.leader)
                );
                if it.member_id != it.leader {
                    write!(line, " as {}", self.short(&it.member_id)).expect("a string takes all");
                }
                if !it.members.is_empty() {
                    let member = |m: &riprap_protocol::messages::JoinGroupResponseMember| {
                        let wanted = String::from_utf8_lossy(&m.metadata).into_owned();
                        let id = self.short(&m.member_id);
                        if wanted.is_empty() { id } else { format!("{id}/{wanted}") }
                    };
                    let members: Vec<String> = it.members.iter().map(member).collect();
                    write!(line, " members={}", members.join(",")).expect("a string takes all");
                }
                if it.skip_assignment { format!("{line} skip") } else { line }
            }
            Response::SyncGroup(it) => {
                encodes(&it, 0);
                if it.error_code.is_none() {
                    let partitions = String::from_utf8_lossy(&it.assignment).into_owned();
                    let line = format!("{who}: assigned {partitions}").trim_end().to_owned();
                    let (generation, owner) = (asked.generation, asked.member.clone());
                    self.seen.push(Seen::Assigned { generation, owner, partitions });
                    line
                } else {
                    format!("{who}: sync {}", it.error_code)
                }
            }
            Response::ConsumerGroupHeartbeat(it) => {
                encodes(&it, 0);
                let client = self.clients.entry(who.to_owned()).or_default();
                if !it.error_code.is_none() {
                    // Who is fenced gives up everything, and joins again.
                    let is_out = [ErrorCode::FENCED_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID];
                    if is_out.contains(&it.error_code) {
                        (client.generation, client.told) = (0, Vec::new());
                        client.hands.clear();
                    }
                    client.is_unsure = true;
                    return format!("{who}: {}", it.error_code);
                }
                client.is_unsure = false;
                client.member_id = it.member_id.expect("an answer says whose it is");
                client.generation = it.member_epoch.max(0);
                let line = format!("{who}: epoch={}", it.member_epoch);
                let Some(assignment) = it.assignment else {
                    if it.member_epoch < 0 {
                        client.told.clear();
                        client.hands.clear();
                    }
                    return line;
                };
                let topics = assignment.topic_partitions.into_iter();
                let told = topics.flat_map(|it| it.partitions.into_iter().map(move |i| (it.topic_id, i)));
                client.told = told.map(|(id, index)| (char::from(id.0[0]), index)).collect();
                client.hands.extend(&client.told);
                format!("{line} owns {}", shown(&client.told)).trim_end().to_owned()
            }
            Response::TxnOffsetCommit(it) => unreachable!("no client here has transactions: {it:?}"),
            Response::OffsetCommit(it) => {
                encodes(&it, 0);
                let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
                for partition in partitions.clone() {
                    let (offset, code) = (asked.offset, partition.error_code);
                    self.seen.push(match code {
                        ErrorCode::NONE => Seen::Committed { partition: partition.index, offset },
                        code => Seen::Refused { offset, code },
                    });
                }
                let codes: Vec<String> =
                    partitions.map(|p| format!("t{} {}", p.index, p.error_code)).collect();
                format!("{who}: commit {}", codes.join(", "))
            }
            Response::OffsetDelete(it) => {
                encodes(&it, 0);
                let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
                let codes: Vec<String> =
                    partitions.map(|it| format!("t{} {}", it.index, it.error_code)).collect();
                if it.error_code.is_none() { codes.join(", ") } else { it.error_code.to_string() }
            }
            Response::DeleteGroup(code) => format!("delete {code}"),
        }
    }

    fn describe_consumers(&self) -> String {
        let it = self.coordinator.describe_consumer(GROUP);
        encodes(
            &riprap_protocol::messages::ConsumerGroupDescribeResponse {
                throttle_time_ms: 0,
                groups: vec![it.clone()],
            },
            0,
        );
        if !it.error_code.is_none() {
            return it.error_code.to_string();
        }
        let partitions = |it: &ConsumerGroupDescribeResponseAssignment| {
            let topics = it.topic_partitions.iter();
            let all = topics.flat_map(|it| it.partitions.iter().map(|i| format!("{}{i}", it.topic_name)));
            all.collect::<Vec<_>>().join(",")
        };
        let members = it.members.iter().map(|member| {
            let (has, target) = (partitions(&member.assignment), partitions(&member.target_assignment));
            let target = if has == target { String::new() } else { format!("->{target}") };
            format!(" {}@{}={has}{target}", member.member_id, member.member_epoch)
        });
        let members: String = members.collect();
        format!("{} {}/{} {}{members}", it.group_state, it.assignment_epoch, it.group_epoch, it.assignor_name)
    }

    fn fetch(&self, words: &Words<'_>) -> Vec<String> {
        let partitions: Vec<i32> = words.partitions().map(|(partition, _)| partition).collect();
        let topics =
            (!words.has("all")).then(|| vec![OffsetFetchRequestTopic { name: "t".to_owned(), partitions }]);
        let request = OffsetFetchRequestGroup {
            group_id: GROUP.to_owned(),
            member_id: words.get("id").map(str::to_owned),
            member_epoch: words.int("epoch", -1),
            topics,
        };
        let response = self.coordinator.offset_fetch(&request, words.has("stable"));
        let mut lines = Vec::new();
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let mut line = format!("t{}={}", partition.index, partition.committed_offset);
            if partition.committed_leader_epoch >= 0 {
                write!(line, " epoch={}", partition.committed_leader_epoch).expect("a string takes all");
            }
            if let Some(meta) = partition.metadata.as_ref().filter(|meta| !meta.is_empty()) {
                write!(line, " meta={meta}").expect("a string takes all");
            }
            if !partition.error_code.is_none() {
                line = format!("t{} {}", partition.index, partition.error_code);
            }
            lines.push(line);
        }
        if !response.error_code.is_none() {
            lines.push(response.error_code.to_string());
        }
        lines
    }

    fn describe(&self) -> String {
        let it = self.coordinator.describe(GROUP, 6);
        if !it.error_code.is_none() {
            return it.error_code.to_string();
        }
        let members: Vec<String> = it
            .members
            .iter()
            .map(|member| {
                let assignment = String::from_utf8_lossy(&member.member_assignment).into_owned();
                let id = self.short(&member.member_id);
                if assignment.is_empty() { id } else { format!("{id}={assignment}") }
            })
            .collect();
        [it.group_state.as_str(), &it.protocol_data, &members.join(" ")].join(" ").trim_end().to_owned()
    }
}

/// Topics are named by a letter, which their ids repeat.
pub(super) fn topic_id(name: &str) -> Uuid {
    Uuid([name.as_bytes()[0]; 16])
}

/// `t0,u1`, and nothing as `-`.
fn parsed(partitions: &str) -> Vec<(char, i32)> {
    let all = partitions.split(',').filter(|it| *it != "-");
    all.map(|it| (it.chars().next().expect("a topic"), it[1..].parse().expect("a partition"))).collect()
}

fn shown(partitions: &[(char, i32)]) -> String {
    partitions.iter().map(|(topic, index)| format!("{topic}{index}")).collect::<Vec<_>>().join(",")
}

/// Every answer can be said in every version from `first` on.
fn encodes<M: Message>(message: &M, first: i16) {
    for version in first.max(*M::VERSIONS.start())..=*M::VERSIONS.end() {
        message.to_bytes(version).unwrap_or_else(|e| panic!("version {version}: {e}"));
    }
}

fn code(name: &str) -> ErrorCode {
    let codes = (-1..130).map(ErrorCode);
    codes.into_iter().find(|code| code.to_string() == name).expect("the name of an error code")
}
