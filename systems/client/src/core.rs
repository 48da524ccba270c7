//! What all parts of a client share.

use crate::backoff::{Backoff, ns};
use crate::error::Trouble;
use crate::metadata::{Metadata, Tp};
use crate::net::{CallError, LATEST_VERSION, Lane, Net};
use crate::options::Options;
use riprap_core::client::ClientConfig;
use riprap_core::op::Key;
use riprap_env::task::Io;
use riprap_protocol::{ErrorCode, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long a call that only asks the cluster something may take, and no longer than a record that is sent.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// The world, the settings, the connections, and what is known of the cluster.
pub(crate) struct Core {
    pub(crate) io: Io,
    pub(crate) config: ClientConfig,
    pub(crate) options: Rc<Options>,
    pub(crate) net: Rc<Net>,
    pub(crate) metadata: Rc<Metadata>,
    partitions: RefCell<BTreeMap<Key, Tp>>,
}

impl Core {
    pub(crate) fn new(io: Io, config: ClientConfig, options: Options) -> Core {
        let options = Rc::new(options);
        let net = Rc::new(Net::new(io.clone(), Rc::clone(&options), config.client_id.clone()));
        let metadata = Rc::new(Metadata::new(Rc::clone(&net), &config.bootstrap));
        Core { io, config, options, net, metadata, partitions: RefCell::default() }
    }

    /// The partition that a key stands for; from now on it is known who leads it.
    pub(crate) fn partition(&self, key: Key) -> Tp {
        if let Some(known) = self.partitions.borrow().get(&key) {
            return known.clone();
        }
        let (topic, partition) = self.config.topic_partition(key);
        let tp = Tp { topic: topic.into(), partition };
        self.metadata.watch(&tp.topic);
        self.partitions.borrow_mut().insert(key, tp.clone());
        tp
    }

    /// When a question is given up that is asked now.
    pub(crate) fn ask_deadline_ns(&self) -> u64 {
        self.io.now_ns() + ns(ASK_TIMEOUT.min(self.config.delivery_timeout))
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.options.retry_backoff)
    }

    pub(crate) fn request_timeout_ns(&self) -> u64 {
        ns(self.options.request_timeout)
    }

    /// Sends a request once and waits for its answer, but not beyond `by_ns`.
    pub(crate) async fn call<R: Request>(
        &self,
        (lane, address): (Lane, &Rc<str>),
        at_most: i16,
        by_ns: u64,
        body: impl FnOnce(i16) -> R,
    ) -> Result<R::Response, Trouble> {
        let mut is_sent = false;
        let link = self.net.link(lane, address);
        let body = |version| {
            is_sent = true;
            body(version)
        };
        let call = link.call(at_most, self.request_timeout_ns(), body);
        match self.io.by(by_ns, call).await {
            Some(answer) => answer.map_err(Trouble::Call),
            None if is_sent => Err(Trouble::Call(CallError::Lost)),
            None => Err(Trouble::Call(CallError::NotSent)),
        }
    }

    /// Asks the leader of a partition until it answers without an error that passes. Errors: another error, or what went
    /// wrong last before the time was over.
    pub(crate) async fn ask_leader<R: Request, T>(
        &self,
        of: &Tp,
        by_ns: u64,
        body: impl Fn(i32) -> R,
        read: impl Fn(R::Response) -> Result<T, ErrorCode>,
    ) -> Result<T, Trouble> {
        let mut backoff = self.backoff();
        loop {
            let trouble = match self.metadata.leader(of) {
                None => Trouble::NoLeader,
                Some(leader) => {
                    let to = (Lane::Ask, &leader.address);
                    match self.call(to, LATEST_VERSION, by_ns, |_| body(leader.epoch)).await {
                        Err(trouble) => trouble,
                        Ok(answer) => match read(answer) {
                            Ok(answer) => return Ok(answer),
                            Err(code) if !code.is_retriable() => return Err(Trouble::Code(code)),
                            Err(code) => Trouble::Code(code),
                        },
                    }
                }
            };
            self.metadata.doubt();
            backoff.pause(&self.io, by_ns).await;
            if self.io.now_ns() >= by_ns {
                return Err(trouble);
            }
        }
    }

    /// Closes all connections at once.
    pub(crate) fn shut_down(&self) {
        self.metadata.shut_down();
        self.net.shut_down();
    }
}
