//! Messages to the kernel's packet filter: tables, chains, sets, rules and what rules are made of.
//!
//! A rule is a list of expressions, which hand each other values by registers until one of them ends the rule's part in a
//! packet or gives a verdict. Here each rule uses register 1 alone.
//!
//! Source: include/uapi/linux/netfilter/nf_tables.h, nf_tables_compat.h, xt_NFQUEUE.h; nft(8).

use super::netlink::{self, Message, Refusal, Socket};
use std::io;

const SUBSYSTEM: u16 = 10 << 8;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM;
const DELETE_TABLE: u16 = SUBSYSTEM | 2;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const GET_RULE: u16 = SUBSYSTEM | 7;
const DELETE_RULE: u16 = SUBSYSTEM | 8;
const NEW_SET: u16 = SUBSYSTEM | 9;
const NEW_ELEMENTS: u16 = SUBSYSTEM | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM | 14;

/// An attribute holds 64 KiB, an element takes 20 bytes.
const ELEMENTS_PER_MESSAGE: usize = 3000;

// Attributes, in the kernel's numbering; each list numbers its own from 1.
const LIST_ELEM: u16 = 1;
const TABLE_NAME: u16 = 1;
const CHAIN: (u16, u16, u16, u16) = (1, 3, 4, 7);
const HOOK: (u16, u16) = (1, 2);
const RULE: (u16, u16, u16) = (1, 2, 4);
const EXPR: (u16, u16) = (1, 2);
const SET_TABLE: u16 = 1;
const SET_NAME: u16 = 2;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_LEN: u16 = 5;
const SET_ID: u16 = 10;
const ELEMENTS: (u16, u16, u16) = (1, 2, 3);
const ELEMENT_KEY: u16 = 1;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT: (u16, u16) = (1, 2);
const COUNTER_PACKETS: u16 = 2;

const REG_VERDICT: u32 = 0;
const REG_1: u32 = 1;
/// NFT_REG32_01: register 1 from its fifth byte on.
const REG_1_SECOND_WORD: u32 = 9;
const META_PROTOCOL: u32 = 1;
const META_TRANSPORT: u32 = 16;
const BASE_NETWORK_HEADER: u32 = 1;
const BASE_TRANSPORT_HEADER: u32 = 2;
const NUMGEN_RANDOM: u32 = 1;
const BYTEORDER_TO_NETWORK: u32 = 1;
const REJECT_BY_ICMP_UNREACHABLE: u32 = 0;
const REJECT_BY_TCP_RESET: u32 = 1;
const ICMP_PORT_UNREACHABLE: u8 = 3;
const VERDICT_JUMP: i32 = -3;
const VERDICT_GOTO: i32 = -4;
const VERDICT_DROP: i32 = 0;
const VERDICT_ACCEPT: i32 = 1;

/// How a register compares with a value.
#[derive(Clone, Copy)]
pub(super) enum Compare {
    Equal = 0,
    Unequal = 1,
    Less = 2,
}

/// Where a chain begins to see packets.
pub(super) struct Hook {
    pub(super) number: u32,
    pub(super) priority: i32,
}

/// What the keys of a set are: so many bytes, and what they mean to a user of `nft list ruleset`.
pub(super) struct Key {
    pub(super) size_bytes: u32,
    pub(super) kind: u32,
}

/// A table, by its family and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) family: u8,
    pub(super) name: &'static str,
}

impl Table {
    fn message(self, kind: u16, flags: libc::c_int) -> Message {
        Message::new(kind, flags, &[self.family, 0, 0, 0])
    }

    /// Makes the table. Refused if it is there already.
    pub(super) fn create(self) -> Message {
        self.named(NEW_TABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
    }

    /// Removes the table and all that is in it. Refused if it is not there.
    pub(super) fn delete(self) -> Message {
        self.named(DELETE_TABLE, 0)
    }

    fn named(self, kind: u16, flags: libc::c_int) -> Message {
        let mut m = self.message(kind, flags);
        m.put_str(TABLE_NAME, self.name);
        m
    }

    /// Makes a set. Rules of the same transaction name it by its number too.
    pub(super) fn set(self, name: &str, number: u32, key: &Key) -> Message {
        let mut m = self.message(NEW_SET, libc::NLM_F_CREATE);
        m.put_str(SET_TABLE, self.name).put_str(SET_NAME, name);
        m.put(SET_KEY_TYPE, &key.kind.to_be_bytes()).put(SET_KEY_LEN, &key.size_bytes.to_be_bytes());
        m.put(SET_ID, &number.to_be_bytes());
        m
    }

    /// Makes a chain: one that packets come to by a hook, or by a jump.
    pub(super) fn chain(self, name: &str, hook: Option<Hook>) -> Message {
        let (table, chain, hook_list, kind) = CHAIN;
        let mut m = self.message(NEW_CHAIN, libc::NLM_F_CREATE);
        m.put_str(table, self.name).put_str(chain, name);
        if let Some(Hook { number, priority }) = hook {
            m.nest(hook_list, |m| {
                m.put(HOOK.0, &number.to_be_bytes()).put(HOOK.1, &priority.to_be_bytes());
            });
            m.put_str(kind, "filter");
        }
        m
    }

    /// Appends a rule to a chain.
    pub(super) fn rule(self, chain: &str, expressions: impl FnOnce(&mut Message)) -> Message {
        let mut m = self.message(NEW_RULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND);
        m.put_str(RULE.0, self.name).put_str(RULE.1, chain).nest(RULE.2, expressions);
        m
    }

    /// Removes all rules of a chain.
    pub(super) fn flush(self, chain: &str) -> Message {
        let mut m = self.message(DELETE_RULE, 0);
        m.put_str(RULE.0, self.name).put_str(RULE.1, chain);
        m
    }

    /// Asks for the rules of a chain.
    fn ask_rules(self, chain: &str) -> Message {
        let mut m = self.message(GET_RULE, 0);
        m.put_str(RULE.0, self.name).put_str(RULE.1, chain);
        m
    }

    /// Replaces what is in a set.
    pub(super) fn replace_elements(self, set: &str, keys: &[Vec<u8>]) -> Vec<Message> {
        // A deletion that names no element empties the set; one that names an absent element would refuse everything.
        let mut messages = vec![self.elements(DELETE_ELEMENTS, set, &[])];
        messages.extend(keys.chunks(ELEMENTS_PER_MESSAGE).map(|some| self.elements(NEW_ELEMENTS, set, some)));
        messages
    }

    fn elements(self, kind: u16, set: &str, keys: &[Vec<u8>]) -> Message {
        let mut m = self.message(kind, if kind == NEW_ELEMENTS { libc::NLM_F_CREATE } else { 0 });
        m.put_str(ELEMENTS.0, self.name).put_str(ELEMENTS.1, set);
        if !keys.is_empty() {
            m.nest(ELEMENTS.2, |m| {
                for key in keys {
                    m.nest(LIST_ELEM, |m| {
                        m.nest(ELEMENT_KEY, |m| {
                            m.put(DATA_VALUE, key);
                        });
                    });
                }
            });
        }
        m
    }
}

fn expression(m: &mut Message, name: &str, data: impl FnOnce(&mut Message)) {
    m.nest(LIST_ELEM, |m| {
        m.put_str(EXPR.0, name).nest(EXPR.1, data);
    });
}

/// An expression whose attributes are all 32-bit numbers in network order.
fn numbers(m: &mut Message, name: &str, values: &[(u16, u32)]) {
    expression(m, name, |m| {
        for (kind, value) in values {
            m.put(*kind, &value.to_be_bytes());
        }
    });
}

/// Loads the ethernet type.
pub(super) fn load_protocol(m: &mut Message) {
    numbers(m, "meta", &[(1, REG_1), (2, META_PROTOCOL)]);
}

/// Loads the number of the protocol within IP.
pub(super) fn load_transport(m: &mut Message) {
    numbers(m, "meta", &[(1, REG_1), (2, META_TRANSPORT)]);
}

/// Loads bytes of the network header.
pub(super) fn load_header(m: &mut Message, offset_bytes: u32, len_bytes: u32) {
    numbers(m, "payload", &[(1, REG_1), (2, BASE_NETWORK_HEADER), (3, offset_bytes), (4, len_bytes)]);
}

/// Loads what [`load_header`] does of four bytes, and behind it the ports of the transport header.
pub(super) fn load_header_and_ports(m: &mut Message, offset_bytes: u32) {
    load_header(m, offset_bytes, 4);
    numbers(m, "payload", &[(1, REG_1_SECOND_WORD), (2, BASE_TRANSPORT_HEADER), (3, 0), (4, 4)]);
}

/// Loads the flags of TCP.
pub(super) fn load_tcp_flags(m: &mut Message) {
    numbers(m, "payload", &[(1, REG_1), (2, BASE_TRANSPORT_HEADER), (3, 13), (4, 1)]);
}

/// Rules that let what is sent over TCP from or to a port pass.
pub(super) fn spare_port(table: Table, chain: &str, port: u16) -> [Message; 2] {
    // Source, destination.
    [0, 2].map(|offset_bytes| {
        table.rule(chain, |m| {
            load_transport(m);
            unless_ends(m, Compare::Equal, &[libc::IPPROTO_TCP as u8]);
            numbers(m, "payload", &[(1, REG_1), (2, BASE_TRANSPORT_HEADER), (3, offset_bytes), (4, 2)]);
            unless_ends(m, Compare::Equal, &port.to_be_bytes());
            accept(m);
        })
    })
}

/// Loads a random number below a limit, in network order.
pub(super) fn load_random(m: &mut Message, below: u32) {
    numbers(m, "numgen", &[(1, REG_1), (2, below), (3, NUMGEN_RANDOM)]);
    // From register 1 to register 1; of four bytes, all four.
    numbers(m, "byteorder", &[(1, REG_1), (2, REG_1), (3, BYTEORDER_TO_NETWORK), (4, 4), (5, 4)]);
}

/// Ends the rule, unless what was loaded compares so.
pub(super) fn unless_ends(m: &mut Message, compare: Compare, value: &[u8]) {
    // Source register 1, operator 2, data 3.
    expression(m, "cmp", |m| {
        m.put(1, &REG_1.to_be_bytes()).put(2, &(compare as u32).to_be_bytes()).nest(3, |m| {
            m.put(DATA_VALUE, value);
        });
    });
}

/// Ends the rule, unless what was loaded is in a set.
pub(super) fn unless_in_ends(m: &mut Message, set: &str, number: u32) {
    expression(m, "lookup", |m| {
        m.put_str(1, set).put(2, &REG_1.to_be_bytes()).put(4, &number.to_be_bytes());
    });
}

/// Counts packets that get here.
pub(super) fn count(m: &mut Message) {
    expression(m, "counter", |_| {});
}

fn verdict(m: &mut Message, code: i32, chain: Option<&str>) {
    expression(m, "immediate", |m| {
        m.put(1, &REG_VERDICT.to_be_bytes()).nest(2, |m| {
            m.nest(DATA_VERDICT, |m| {
                m.put(VERDICT.0, &code.to_be_bytes());
                if let Some(chain) = chain {
                    m.put_str(VERDICT.1, chain);
                }
            });
        });
    });
}

/// Drops the packet.
pub(super) fn drop(m: &mut Message) {
    verdict(m, VERDICT_DROP, None);
}

/// Lets the packet pass.
pub(super) fn accept(m: &mut Message) {
    verdict(m, VERDICT_ACCEPT, None);
}

/// Goes on in another chain, and then comes back.
pub(super) fn jump(m: &mut Message, chain: &str) {
    verdict(m, VERDICT_JUMP, Some(chain));
}

/// Goes on in another chain, for good.
pub(super) fn go_to(m: &mut Message, chain: &str) {
    verdict(m, VERDICT_GOTO, Some(chain));
}

/// Hands the packet to whoever listens to a queue. Without anybody it passes: what was to keep packets waiting has been
/// killed, and nobody would ever let them go.
///
/// By the older filter's target: kernels without an expression of their own for it have this one, and those with it too.
pub(super) fn queue(m: &mut Message, number: u16) {
    // Name 1, revision 2, and 3 what the target is told: the first queue, how many there are, whether packets pass without
    // anybody, padded to the alignment of a u64. Not of the bridge's family: Linux 6.18 refuses it there.
    let told = [number, 1, 1, 0].map(u16::to_ne_bytes).concat();
    expression(m, "target", |m| {
        m.put_str(1, "NFQUEUE").put(2, &2_u32.to_be_bytes()).put(3, &told);
    });
}

/// Drops the packet and tells its sender by ICMP that nobody listens there, in a packet of the same type of service. A kernel
/// does so no more than once a second for each sender, beyond some at first.
pub(super) fn reject(m: &mut Message) {
    expression(m, "reject", |m| {
        m.put(1, &REJECT_BY_ICMP_UNREACHABLE.to_be_bytes()).put(2, &[ICMP_PORT_UNREACHABLE]);
    });
}

/// Drops the packet, which is of TCP, and answers it as a place would where nobody listens, as often as it comes.
pub(super) fn reset(m: &mut Message) {
    expression(m, "reject", |m| {
        m.put(1, &REJECT_BY_TCP_RESET.to_be_bytes());
    });
}

/// A way to the packet filter of a network namespace.
#[derive(Debug)]
pub(super) struct Nft {
    socket: Socket,
}

impl Nft {
    /// Of the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Nft> {
        Ok(Nft { socket: Socket::open(libc::NETLINK_NETFILTER)? })
    }

    /// Has messages take effect together, or not at all.
    pub(super) fn transaction(&mut self, messages: Vec<Message>) -> Result<(), Refusal> {
        // The batch's own header names the subsystem in network order, where other headers have a version and a resource.
        let mark = |kind| Message::new(kind, 0, &[libc::AF_UNSPEC as u8, 0, 0, (SUBSYSTEM >> 8) as u8]);
        self.socket.transaction(mark(BATCH_BEGIN), messages, mark(BATCH_END))
    }

    /// How many packets the first rule of a chain that counts has counted.
    pub(super) fn counted(&mut self, table: Table, chain: &str) -> Result<u64, Refusal> {
        let rules = self.socket.dump(table.ask_rules(chain))?;
        let counted = rules.iter().find_map(|rule| counter(rule.get(4..)?));
        counted.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the rule that counts is gone").into())
    }
}

/// The packets of the counter among a rule's expressions.
fn counter(rule: &[u8]) -> Option<u64> {
    let expressions = netlink::attribute(rule, RULE.2)?;
    let data = netlink::attributes(expressions).find_map(|(_, expression)| {
        let name = netlink::attribute(expression, EXPR.0)?;
        (name == b"counter\0").then(|| netlink::attribute(expression, EXPR.1))?
    })?;
    Some(u64::from_be_bytes(netlink::attribute(data, COUNTER_PACKETS)?.try_into().ok()?))
}
