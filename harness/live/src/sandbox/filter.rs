//! The packet filter on the bridge: what happens to packets from a source to a destination.
//!
//! One table of the bridge family in the harness's namespace sees every packet between two nodes (forward), from a node
//! to the harness (input) and from the harness to a node (output). All three chains jump to one policy chain:
//!
//! ```text
//! table bridge riprap {
//!     set cuts|lossy { type ipv4_addr . ipv4_addr }
//!     chain cuts { ip saddr . ip daddr @cuts  counter  drop }
//!     chain loss { ip saddr . ip daddr @lossy  numgen random mod 100 < PERCENT  counter  drop }
//!     chain policy {
//!         ether type != ip  accept
//!         ip tos PROBE_OF_CUTS  goto cuts
//!         ip tos PROBE_OF_LOSS  goto loss
//!         ip tos of another probe  accept
//!         jump cuts  jump loss
//!     }
//!     chain input|forward|output { type filter hook ... priority -200; jump policy }
//! }
//! ```
//!
//! What it lets pass comes to the [door](super::door) of where it goes. Each kind of fault has its own set and its own chain, so that none undoes another; and a whole set is replaced in one
//! transaction: packets see the old state or the new one, nothing between. A probe meets only the chain of the fault that
//! it is to prove, which is the very chain that all other packets go through: a link that is cut can still be asked
//! how slow it is, and a slow one whether it is cut.
//!
//! Rules elsewhere would not do: of the ip family they depend on br_netfilter; by connection tracking they would let
//! established connections through; a link taken down loses addresses and neighbours. ARP always passes, so that a healed
//! pair need not find each other again.

use super::netlink::{Message, Refusal};
use super::nft::{self, Compare, Hook, Key, Nft, Table};
use super::probe::Kind;
use std::net::Ipv4Addr;

const TABLE: Table = Table { family: 7, name: "riprap" };
const POLICY: &str = "policy";
/// Chains by their hook numbers: NF_BR_LOCAL_IN, NF_BR_FORWARD, NF_BR_LOCAL_OUT.
const HOOKS: [(&str, u32); 3] = [("input", 1), ("forward", 2), ("output", 3)];
/// NF_BR_PRI_FILTER_BRIDGED: where nft puts `priority filter` of the bridge family.
const PRIORITY: i32 = -200;

/// Addresses of source and destination, as they follow each other in the IPv4 header; to nft(8) ipv4_addr (7) twice, six
/// bits each.
const PAIR: Key = Key { size_bytes: 8, kind: (7 << 6) | 7 };
const SOURCE_OFFSET_BYTES: u32 = 12;
const TOS_OFFSET_BYTES: u32 = 1;
const ETHER_TYPE_IPV4: u16 = 0x0800;

/// A chain and the set of pairs that it is about.
struct Part {
    chain: &'static str,
    set: &'static str,
    number: u32,
}

const CUTS: Part = Part { chain: "cuts", set: "cuts", number: 1 };
const LOSS: Part = Part { chain: "loss", set: "lossy", number: 2 };
const PARTS: [&Part; 2] = [&CUTS, &LOSS];

/// Source and destination.
pub(super) type Pair = (Ipv4Addr, Ipv4Addr);

/// The filter of one network.
#[derive(Debug)]
pub(super) struct Filter {
    nft: Nft,
}

impl Filter {
    /// Makes the table, with nothing in its sets, in the calling thread's network namespace.
    pub(super) fn new() -> Result<Filter, Refusal> {
        let mut filter = Filter { nft: Nft::open()? };
        let mut messages = vec![TABLE.create()];
        messages.extend(PARTS.iter().map(|part| TABLE.set(part.set, part.number, &PAIR)));
        messages.extend(PARTS.iter().map(|part| TABLE.chain(part.chain, None)));
        messages.push(TABLE.chain(POLICY, None));
        messages.extend(
            HOOKS
                .iter()
                .map(|(name, number)| TABLE.chain(name, Some(Hook { number: *number, priority: PRIORITY }))),
        );
        messages.push(TABLE.rule(CUTS.chain, |m| {
            unless_of_ends(m, &CUTS);
            nft::count(m);
            nft::drop(m);
        }));
        messages.push(TABLE.rule(POLICY, |m| {
            nft::load_protocol(m);
            nft::unless_ends(m, Compare::Unequal, &ETHER_TYPE_IPV4.to_be_bytes());
            nft::accept(m);
        }));
        messages.extend(Kind::ALL.into_iter().flat_map(|kind| {
            let chain = match kind {
                Kind::Reach => Some(CUTS.chain),
                Kind::Loss => Some(LOSS.chain),
                Kind::Delay | Kind::Rate | Kind::Refusal | Kind::Hold | Kind::Answer => None,
            };
            lead_probes(TABLE, POLICY, kind, chain)
        }));
        messages.extend(PARTS.iter().map(|part| TABLE.rule(POLICY, |m| nft::jump(m, part.chain))));
        messages.extend(HOOKS.iter().map(|(name, _)| TABLE.rule(name, |m| nft::jump(m, POLICY))));
        filter.nft.transaction(messages)?;
        Ok(filter)
    }

    /// Replaces all that is cut.
    pub(super) fn set_cuts(&mut self, cuts: &[Pair]) -> Result<(), Refusal> {
        self.nft.transaction(TABLE.replace_elements(CUTS.set, &keys(cuts)))
    }

    /// Replaces all that loses packets, and how many of a hundred.
    pub(super) fn set_lossy(&mut self, lossy: &[Pair], percent: u8) -> Result<(), Refusal> {
        let mut messages = TABLE.replace_elements(LOSS.set, &keys(lossy));
        messages.push(TABLE.flush(LOSS.chain));
        messages.push(TABLE.rule(LOSS.chain, |m| {
            unless_of_ends(m, &LOSS);
            nft::load_random(m, 100);
            nft::unless_ends(m, Compare::Less, &u32::from(percent).to_be_bytes());
            nft::count(m);
            nft::drop(m);
        }));
        self.nft.transaction(messages)
    }

    /// How many packets the cuts have dropped since the table was made.
    pub(super) fn dropped_packets(&mut self) -> Result<u64, Refusal> {
        self.nft.counted(TABLE, CUTS.chain)
    }

    /// Removes the table.
    pub(super) fn remove(&mut self) -> Result<(), Refusal> {
        self.nft.transaction(vec![TABLE.delete()])
    }
}

/// Ends a rule unless the packet is from a source to a destination that the part is about.
fn unless_of_ends(m: &mut Message, part: &Part) {
    nft::load_header(m, SOURCE_OFFSET_BYTES, PAIR.size_bytes);
    nft::unless_in_ends(m, part.set, part.number);
}

/// Rules that lead probes to the chain that they are about, and past all others.
pub(super) fn lead_probes(table: Table, from: &str, kind: Kind, to: Option<&str>) -> Vec<Message> {
    let rule = |tos: &u8| {
        table.rule(from, |m| {
            nft::load_header(m, TOS_OFFSET_BYTES, 1);
            nft::unless_ends(m, Compare::Equal, &[*tos]);
            match to {
                Some(chain) => nft::go_to(m, chain),
                None => nft::accept(m),
            }
        })
    };
    kind.services().iter().map(rule).collect()
}

fn keys(pairs: &[Pair]) -> Vec<Vec<u8>> {
    pairs.iter().map(|(source, destination)| [source.octets(), destination.octets()].concat()).collect()
}
