//! `riprap objects`: one object store, for systems that keep their data in one.

use crate::Failure;
use crate::args::ObjectsArgs;
use std::net::{Ipv4Addr, SocketAddr};

/// Where a store listens that is not told.
const DEFAULT_LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9000);

pub(crate) fn run(args: &ObjectsArgs) -> Result<u8, Failure> {
    let listen = args.listen.unwrap_or(SocketAddr::from(DEFAULT_LISTEN));
    riprap_systems::objects::serve(listen, &args.dir).map_err(Failure::Harness)?;
    Ok(0)
}
