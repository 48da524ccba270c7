//! The packet filter on the bridge: which source may not reach which destination.
//!
//! One table of the bridge family in the harness's namespace sees every packet between two nodes (forward), from a node
//! to the harness (input) and from the harness to a node (output). All three chains jump to one policy chain:
//!
//! ```text
//! table bridge riprap {
//!     set cuts { type ipv4_addr . ipv4_addr }
//!     chain policy { ether type ip  ip saddr . ip daddr @cuts  counter  drop }
//!     chain input|forward|output { type filter hook ... priority -200; jump policy }
//! }
//! ```
//!
//! The whole set is replaced in one transaction: packets see the old partition or the new one, nothing between.
//!
//! Rules elsewhere would not do: of the ip family they depend on br_netfilter; by connection tracking they would let
//! established connections through; a link taken down loses addresses and neighbours. ARP always passes, so that a healed
//! pair need not find each other again. The next fault on packets (loss) is one more set and one more rule in `policy`.
//!
//! Source: include/uapi/linux/netfilter/nf_tables.h, nft(8).

use super::netlink::{self, Message, Refusal, Socket};
use std::io;
use std::net::Ipv4Addr;

const SUBSYSTEM: u16 = 10 << 8;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM;
const DELETE_TABLE: u16 = SUBSYSTEM | 2;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const GET_RULE: u16 = SUBSYSTEM | 7;
const NEW_SET: u16 = SUBSYSTEM | 9;
const NEW_ELEMENTS: u16 = SUBSYSTEM | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM | 14;

const FAMILY_BRIDGE: u8 = 7;
const TABLE: &str = "riprap";
const POLICY: &str = "policy";
const CUTS: &str = "cuts";
/// Chains by their hook numbers: NF_BR_LOCAL_IN, NF_BR_FORWARD, NF_BR_LOCAL_OUT.
const HOOKS: [(&str, u32); 3] = [("input", 1), ("forward", 2), ("output", 3)];
/// NF_BR_PRI_FILTER_BRIDGED: where nft puts `priority filter` of the bridge family.
const PRIORITY: i32 = -200;

/// Addresses of source and destination, as they follow each other in the IPv4 header.
const KEY_SIZE_BYTES: u32 = 8;
const SOURCE_OFFSET_BYTES: u32 = 12;
/// What the set's keys mean to a user of `nft list ruleset`: ipv4_addr (7) twice, six bits each.
const KEY_TYPE: u32 = (7 << 6) | 7;
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
const META_PROTOCOL: u32 = 1;
const BASE_NETWORK_HEADER: u32 = 1;
const CMP_EQ: u32 = 0;
const ETHER_TYPE_IPV4: u16 = 0x0800;
const VERDICT_JUMP: i32 = -3;
const VERDICT_DROP: i32 = 0;

/// The filter of one network.
#[derive(Debug)]
pub(super) struct Filter {
    socket: Socket,
}

impl Filter {
    /// Makes the table, with nothing cut, in the calling thread's network namespace.
    pub(super) fn new() -> Result<Filter, Refusal> {
        let mut filter = Filter { socket: Socket::open(libc::NETLINK_NETFILTER)? };
        let mut messages = vec![table(NEW_TABLE), set(), chain(POLICY, None)];
        messages.extend(HOOKS.iter().map(|(name, hook)| chain(name, Some(*hook))));
        messages.push(rule(POLICY, drop_what_is_cut));
        messages.extend(HOOKS.iter().map(|(name, _)| rule(name, jump_to_policy)));
        filter.transaction(messages)?;
        Ok(filter)
    }

    /// Replaces all that is cut.
    pub(super) fn set_cuts(&mut self, cuts: &[(Ipv4Addr, Ipv4Addr)]) -> Result<(), Refusal> {
        // A deletion that names no element empties the set; one that names an absent element would refuse everything.
        let mut messages = vec![elements(DELETE_ELEMENTS, &[])];
        messages.extend(cuts.chunks(ELEMENTS_PER_MESSAGE).map(|some| elements(NEW_ELEMENTS, some)));
        self.transaction(messages)
    }

    /// How many packets the cuts have dropped since the table was made.
    pub(super) fn dropped_packets(&mut self) -> Result<u64, Refusal> {
        let mut ask = message(GET_RULE, 0);
        ask.put_str(RULE.0, TABLE).put_str(RULE.1, POLICY);
        let rules = self.socket.dump(ask)?;
        let counted = rules.iter().find_map(|rule| counter(rule.get(4..)?));
        counted.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the rule that counts is gone").into())
    }

    /// Removes the table.
    pub(super) fn remove(&mut self) -> Result<(), Refusal> {
        self.transaction(vec![table(DELETE_TABLE)])
    }

    fn transaction(&mut self, messages: Vec<Message>) -> Result<(), Refusal> {
        // The batch's own header names the subsystem in network order, where other headers have a version and a resource.
        let mark = |kind| Message::new(kind, 0, &[libc::AF_UNSPEC as u8, 0, 0, (SUBSYSTEM >> 8) as u8]);
        self.socket.transaction(mark(BATCH_BEGIN), messages, mark(BATCH_END))
    }
}

fn message(kind: u16, flags: libc::c_int) -> Message {
    Message::new(kind, flags, &[FAMILY_BRIDGE, 0, 0, 0])
}

fn table(kind: u16) -> Message {
    let mut m = message(kind, if kind == NEW_TABLE { libc::NLM_F_CREATE | libc::NLM_F_EXCL } else { 0 });
    m.put_str(TABLE_NAME, TABLE);
    m
}

fn set() -> Message {
    let mut m = message(NEW_SET, libc::NLM_F_CREATE);
    m.put_str(SET_TABLE, TABLE).put_str(SET_NAME, CUTS);
    m.put(SET_KEY_TYPE, &KEY_TYPE.to_be_bytes()).put(SET_KEY_LEN, &KEY_SIZE_BYTES.to_be_bytes());
    m.put(SET_ID, &1_u32.to_be_bytes());
    m
}

fn chain(name: &str, hook: Option<u32>) -> Message {
    let (table, chain, hook_list, kind) = CHAIN;
    let mut m = message(NEW_CHAIN, libc::NLM_F_CREATE);
    m.put_str(table, TABLE).put_str(chain, name);
    if let Some(number) = hook {
        m.nest(hook_list, |m| {
            m.put(HOOK.0, &number.to_be_bytes()).put(HOOK.1, &PRIORITY.to_be_bytes());
        });
        m.put_str(kind, "filter");
    }
    m
}

fn rule(chain: &str, expressions: fn(&mut Message)) -> Message {
    let mut m = message(NEW_RULE, libc::NLM_F_CREATE | libc::NLM_F_APPEND);
    m.put_str(RULE.0, TABLE).put_str(RULE.1, chain).nest(RULE.2, expressions);
    m
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

fn jump_to_policy(m: &mut Message) {
    verdict(m, VERDICT_JUMP, Some(POLICY));
}

fn drop_what_is_cut(m: &mut Message) {
    // meta: destination register 1, key 2.
    numbers(m, "meta", &[(1, REG_1), (2, META_PROTOCOL)]);
    // cmp: source register 1, operator 2, data 3.
    expression(m, "cmp", |m| {
        m.put(1, &REG_1.to_be_bytes()).put(2, &CMP_EQ.to_be_bytes()).nest(3, |m| {
            m.put(DATA_VALUE, &ETHER_TYPE_IPV4.to_be_bytes());
        });
    });
    // payload: destination register 1, base 2, offset 3, length 4.
    let (offset, len) = (SOURCE_OFFSET_BYTES, KEY_SIZE_BYTES);
    numbers(m, "payload", &[(1, REG_1), (2, BASE_NETWORK_HEADER), (3, offset), (4, len)]);
    // lookup: set 1, source register 2, set id 4 (the set is made in the same transaction).
    expression(m, "lookup", |m| {
        m.put_str(1, CUTS).put(2, &REG_1.to_be_bytes()).put(4, &1_u32.to_be_bytes());
    });
    expression(m, "counter", |_| {});
    verdict(m, VERDICT_DROP, None);
}

fn elements(kind: u16, pairs: &[(Ipv4Addr, Ipv4Addr)]) -> Message {
    let mut m = message(kind, if kind == NEW_ELEMENTS { libc::NLM_F_CREATE } else { 0 });
    m.put_str(ELEMENTS.0, TABLE).put_str(ELEMENTS.1, CUTS);
    if !pairs.is_empty() {
        m.nest(ELEMENTS.2, |m| {
            for (source, destination) in pairs {
                let key = [source.octets(), destination.octets()].concat();
                m.nest(LIST_ELEM, |m| {
                    m.nest(ELEMENT_KEY, |m| {
                        m.put(DATA_VALUE, &key);
                    });
                });
            }
        });
    }
    m
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
