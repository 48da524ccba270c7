//! What a client knows of the cluster: brokers, topics, who leads.
//!
//! One task asks for it: when somebody doubts what is known, and else when it is old. It asks any broker, at random, or one
//! of those that the client was told of in the beginning. What an answer says of a partition is taken in only if it is of no
//! earlier leader epoch than what is known: a broker that lags behind must not send the client back to a former leader.
//!
//! Source: Java's Metadata; KIP-320 (epochs), KIP-899 (beginning anew), KIP-951 (leaders told by those who do not lead).

use crate::backoff::{Backoff, ns};
use crate::net::{CallError, LATEST_VERSION, Lane, Net};
use riprap_env::task::{Signal, TaskHandle};
use riprap_protocol::Uuid;
use riprap_protocol::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A topic and one of its partitions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tp {
    pub(crate) topic: Rc<str>,
    pub(crate) partition: i32,
}

/// Who leads a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leader {
    pub(crate) broker: i32,
    pub(crate) epoch: i32,
    /// `host:port`.
    pub(crate) address: Rc<str>,
}

/// No leader, no epoch.
const NONE: i32 = -1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Led {
    by: i32,
    epoch: i32,
}

#[derive(Default)]
struct Topic {
    id: Uuid,
    partitions: BTreeMap<i32, Led>,
}

#[derive(Default)]
struct View {
    brokers: BTreeMap<i32, Rc<str>>,
    topics: BTreeMap<Rc<str>, Topic>,
    names: BTreeMap<Uuid, Rc<str>>,
}

/// What is known, and the task that asks; see the module.
pub(crate) struct Metadata {
    net: Rc<Net>,
    bootstrap: Vec<Rc<str>>,
    view: RefCell<View>,
    /// The topics to ask for.
    watched: RefCell<BTreeSet<Rc<str>>>,
    is_wanted: Cell<bool>,
    wanted: Signal,
    /// Tells of each answer.
    pub(crate) changed: Signal,
    task: RefCell<Option<TaskHandle<()>>>,
}

impl Metadata {
    pub(crate) fn new(net: Rc<Net>, bootstrap: &[String]) -> Metadata {
        Metadata {
            net,
            bootstrap: bootstrap.iter().map(|address| Rc::from(address.as_str())).collect(),
            view: RefCell::default(),
            watched: RefCell::default(),
            is_wanted: Cell::new(false),
            wanted: Signal::default(),
            changed: Signal::default(),
            task: RefCell::default(),
        }
    }

    /// Asks for a topic from now on.
    pub(crate) fn watch(self: &Rc<Metadata>, topic: &Rc<str>) {
        if self.watched.borrow_mut().insert(Rc::clone(topic)) {
            self.doubt();
        }
    }

    /// What is known may be wrong: it is asked for soon.
    pub(crate) fn doubt(self: &Rc<Metadata>) {
        self.is_wanted.set(true);
        self.wanted.tell();
        if self.task.borrow().is_none() {
            let task = self.net.io.spawn(run(Rc::clone(self)));
            *self.task.borrow_mut() = Some(task);
        }
    }

    pub(crate) fn shut_down(&self) {
        let task = self.task.take();
        drop(task);
    }

    pub(crate) fn leader(&self, of: &Tp) -> Option<Leader> {
        let view = self.view.borrow();
        let led = view.topics.get(&of.topic)?.partitions.get(&of.partition)?;
        let address = view.brokers.get(&led.by)?;
        Some(Leader { broker: led.by, epoch: led.epoch, address: Rc::clone(address) })
    }

    pub(crate) fn topic_id(&self, topic: &str) -> Uuid {
        self.view.borrow().topics.get(topic).map_or(Uuid::ZERO, |topic| topic.id)
    }

    pub(crate) fn topic_name(&self, id: Uuid) -> Option<Rc<str>> {
        self.view.borrow().names.get(&id).cloned()
    }

    /// How many partitions a topic has; none if that is not known.
    pub(crate) fn partition_count(&self, topic: &str) -> Option<i32> {
        let view = self.view.borrow();
        let count = view.topics.get(topic)?.partitions.len();
        Some(i32::try_from(count).expect("a response has room for fewer"))
    }

    /// Any broker, one that can be tried rather than one that just failed.
    pub(crate) fn anybody(&self, lane: Lane) -> Rc<str> {
        let view = self.view.borrow();
        let known: BTreeSet<&Rc<str>> = view.brokers.values().chain(&self.bootstrap).collect();
        let may_be_tried: Vec<&Rc<str>> =
            known.iter().copied().filter(|address| self.net.link(lane, address).may_be_tried()).collect();
        let from: Vec<&Rc<str>> =
            if may_be_tried.is_empty() { known.into_iter().collect() } else { may_be_tried };
        let at = self.net.io.random_u64("broker") % (from.len().max(1) as u64);
        from.get(at as usize).map_or_else(|| Rc::from(""), |address| Rc::clone(address))
    }

    /// Takes in who leads, as somebody said who does not. Source: KIP-951.
    pub(crate) fn learn(&self, of: &Tp, broker: i32, epoch: i32, endpoint: Option<(&str, i32)>) -> bool {
        let mut view = self.view.borrow_mut();
        if let Some((host, port)) = endpoint {
            view.brokers.insert(broker, format!("{host}:{port}").into());
        }
        if broker < 0 || !view.brokers.contains_key(&broker) {
            return false;
        }
        let topic = view.topics.get_mut(&of.topic);
        let Some(led) = topic.and_then(|topic| topic.partitions.get_mut(&of.partition)) else { return false };
        if epoch <= led.epoch {
            return false;
        }
        *led = Led { by: broker, epoch };
        drop(view);
        self.changed.tell();
        true
    }

    fn request(&self, version: i16) -> MetadataRequest {
        let topic =
            |name: &Rc<str>| MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some(name.to_string()) };
        MetadataRequest {
            topics: Some(self.watched.borrow().iter().map(topic).collect()),
            allow_auto_topic_creation: version < 4,
            ..Default::default()
        }
    }

    /// Takes in an answer; says whether it leaves nothing to ask again.
    fn take_in(&self, response: MetadataResponse) -> bool {
        let mut view = self.view.borrow_mut();
        if !response.brokers.is_empty() {
            let address = |host: &str, port: i32| Rc::from(format!("{host}:{port}"));
            view.brokers = response.brokers.iter().map(|b| (b.node_id, address(&b.host, b.port))).collect();
        }
        let mut is_whole = !response.brokers.is_empty();
        for told in response.topics {
            let Some(name) = told.name.filter(|_| told.error_code.is_none()) else {
                // What is known stays: who says that a topic is gone may only not have heard of it.
                is_whole = false;
                continue;
            };
            let name: Rc<str> = name.into();
            if !told.topic_id.is_zero() {
                view.names.insert(told.topic_id, Rc::clone(&name));
            }
            let topic = view.topics.entry(name).or_default();
            if topic.id != told.topic_id {
                *topic = Topic { id: told.topic_id, partitions: BTreeMap::new() };
            }
            for told in told.partitions {
                let new = Led { by: told.leader_id, epoch: told.leader_epoch };
                let known = topic.partitions.entry(told.index).or_insert(Led { by: NONE, epoch: NONE });
                if new.epoch >= known.epoch {
                    *known = new;
                }
                is_whole &= known.by != NONE;
            }
        }
        is_whole
    }
}

/// Asks, again and again.
async fn run(metadata: Rc<Metadata>) {
    let net = Rc::clone(&metadata.net);
    let (io, options) = (&net.io, &net.options);
    let mut backoff = Backoff::new(options.retry_backoff);
    loop {
        if !metadata.is_wanted.get() {
            let told = metadata.wanted.told();
            io.by(io.now_ns() + ns(options.metadata_max_age), told).await;
        }
        metadata.is_wanted.set(false);
        let link = net.link(Lane::Ask, &metadata.anybody(Lane::Ask));
        let timeout_ns = ns(options.request_timeout);
        let asked = link.call(LATEST_VERSION, timeout_ns, |version| metadata.request(version));
        let is_whole = match asked.await {
            Ok(response) => {
                let is_whole = metadata.take_in(response);
                metadata.changed.tell();
                is_whole
            }
            Err(CallError::NotSent | CallError::Lost | CallError::Unsupported) => false,
        };
        if is_whole {
            backoff.reset();
        } else {
            metadata.is_wanted.set(true);
        }
        // Also after a good answer: whoever doubts it learns nothing from asking at once.
        let pause_ns = backoff.next_ns(io);
        if is_whole {
            backoff.reset();
        }
        io.sleep(pause_ns).await;
    }
}
