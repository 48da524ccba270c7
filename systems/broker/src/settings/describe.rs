//! Settings as clients are shown them: each with its value, where that comes from, and what it would be otherwise.

use super::{BROKER_SETTINGS, Kind, TOPIC_SETTINGS, TopicSetting, TopicSettings};
use crate::config::BrokerConfig;
use crate::ids::BrokerId;

/// Where a setting's value comes from. Source: Kafka's `DescribeConfigsResponse.ConfigSource`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The topic was made with it, or given it since.
    Topic = 1,
    /// The broker was started with it.
    Broker = 4,
    /// Nobody said anything.
    Default = 5,
}

/// A value that holds, or would hold if those before it were taken away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Synonym {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// A setting as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Described {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) documentation: &'static str,
    /// The first is what holds.
    pub(crate) synonyms: Vec<Synonym>,
}

impl Described {
    pub(crate) fn value(&self) -> &str {
        &self.synonyms[0].value
    }

    pub(crate) fn source(&self) -> Source {
        self.synonyms[0].source
    }
}

/// A topic's settings: what they come to, and which of them were asked for.
pub(crate) fn describe_topic(
    config: &BrokerConfig,
    settings: &TopicSettings,
    asked: &[(String, String)],
) -> Vec<Described> {
    let (own, defaults) = (config.topic_settings(), unconfigured().topic_settings());
    let describe = |setting: &TopicSetting| {
        let mut synonyms = Vec::new();
        if asked.iter().any(|(name, _)| name == setting.name) {
            let value = (setting.get)(settings);
            synonyms.push(Synonym { name: setting.name, value, source: Source::Topic });
        }
        let (own, default) = ((setting.get)(&own), (setting.get)(&defaults));
        let name = if setting.broker_name.is_empty() { setting.name } else { setting.broker_name };
        if own != default {
            synonyms.push(Synonym { name, value: own, source: Source::Broker });
        }
        synonyms.push(Synonym { name, value: default, source: Source::Default });
        Described { name: setting.name, kind: setting.kind, documentation: setting.documentation, synonyms }
    };
    TOPIC_SETTINGS.iter().map(describe).collect()
}

/// A broker's own settings.
pub(crate) fn describe_broker(config: &BrokerConfig) -> Vec<Described> {
    let defaults = unconfigured();
    let described = BROKER_SETTINGS.iter().map(|setting| {
        let (name, value, default) = (setting.name, (setting.get)(config), (setting.get)(&defaults));
        let mut synonyms = Vec::new();
        if value != default {
            synonyms.push(Synonym { name, value, source: Source::Broker });
        }
        synonyms.push(Synonym { name, value: default, source: Source::Default });
        Described { name, kind: setting.kind, documentation: setting.documentation, synonyms }
    });
    described.collect()
}

/// A broker of which nobody said anything.
fn unconfigured() -> BrokerConfig {
    BrokerConfig::new(BrokerId(0), Default::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_comes_first() {
        let mut config = unconfigured();
        config.set("log.retention.ms", "5").expect("it is a setting");
        let asked =
            [("retention.ms".to_owned(), "7".to_owned()), ("retention.bytes".to_owned(), "-1".to_owned())];
        let settings = TopicSettings::resolve(&config, &asked);
        let described = describe_topic(&config, &settings, &asked);
        let check = |name: &str, expect: &[(&str, &str, Source)]| {
            let found = described.iter().find(|described| described.name == name).expect("it is shown");
            let synonyms: Vec<_> =
                found.synonyms.iter().map(|s| (s.name, s.value.as_str(), s.source)).collect();
            assert_eq!(synonyms, expect);
        };
        let week = ("log.retention.ms", "604800000", Source::Default);
        check(
            "retention.ms",
            &[("retention.ms", "7", Source::Topic), ("log.retention.ms", "5", Source::Broker), week],
        );
        check(
            "retention.bytes",
            &[("retention.bytes", "-1", Source::Topic), ("log.retention.bytes", "-1", Source::Default)],
        );
        check("compression.type", &[("compression.type", "producer", Source::Default)]);
        let own = describe_broker(&config);
        let own = own.iter().find(|described| described.name == "log.retention.ms").expect("it is shown");
        assert_eq!((own.value(), own.source()), ("5", Source::Broker));
    }
}
