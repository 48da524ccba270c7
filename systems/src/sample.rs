//! A deployment for tests.

use riprap_core::cluster::NodeId;
use riprap_core::system::{Deployment, NodePlace};

/// So many nodes, the last of them controllers and no more: `n2` is at 10.0.0.2, with its data in `/run/n2/data`.
pub(crate) fn deployment(nodes: u16, controllers: u16, settings: &[(&str, &str)]) -> Deployment {
    let place = |n: u16| NodePlace {
        id: NodeId(n),
        address: std::net::Ipv4Addr::new(10, 0, 0, n as u8).into(),
        data_dir: format!("/run/n{n}/data").into(),
        log_dir: format!("/run/n{n}").into(),
    };
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Deployment {
        nodes: (1..=nodes).map(place).collect(),
        controllers,
        storage: 0,
        spare: None,
        version: None,
        defect: None,
        settings: settings.collect(),
        seed: 1,
        program: None,
    }
}
