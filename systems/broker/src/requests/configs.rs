//! DescribeConfigs: what the settings of topics and of this broker are, and why.

use crate::connection::ReplyTo;
use crate::node::{Cx, Running};
use crate::settings::{Described, describe_broker, describe_topic};
use riprap_protocol::ErrorCode;
use riprap_protocol::messages::{
    DescribeConfigsRequest, DescribeConfigsRequestResource, DescribeConfigsResponse,
    DescribeConfigsResponseConfig, DescribeConfigsResponseResult, DescribeConfigsResponseSynonym,
};

/// The kind of resource whose settings are meant. Source: Kafka's `ConfigResource.Type`.
pub(crate) const RESOURCE_TOPIC: i8 = 2;
/// See [`RESOURCE_TOPIC`].
pub(crate) const RESOURCE_BROKER: i8 = 4;

impl Running {
    pub(crate) fn on_describe_configs(
        &mut self,
        to: ReplyTo,
        request: &DescribeConfigsRequest,
        cx: &mut Cx<'_>,
    ) {
        let mut response = DescribeConfigsResponse::default();
        for resource in &request.resources {
            let mut result = DescribeConfigsResponseResult {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            };
            match self.settings_of(resource) {
                Ok(settings) => {
                    let keys = resource.configuration_keys.as_ref();
                    let is_wanted = |setting: &&Described| {
                        keys.is_none_or(|keys| keys.iter().any(|key| key == setting.name))
                    };
                    let is_fixed = resource.resource_type == RESOURCE_BROKER;
                    let shown = settings.iter().filter(is_wanted).map(|s| shown(s, is_fixed, request));
                    result.configs = shown.collect();
                }
                Err((code, message)) => (result.error_code, result.error_message) = (code, Some(message)),
            }
            response.results.push(result);
        }
        self.reply(to, &response, cx);
    }

    fn settings_of(
        &self,
        resource: &DescribeConfigsRequestResource,
    ) -> Result<Vec<Described>, (ErrorCode, String)> {
        let name = &resource.resource_name;
        match resource.resource_type {
            RESOURCE_TOPIC => {
                let image = self.quorum.image();
                let topic = image.topic_id(name).and_then(|id| image.topic(id));
                let topic = topic.ok_or_else(|| {
                    let message = format!("the topic `{name}` does not exist");
                    (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message)
                })?;
                Ok(describe_topic(&self.config, &topic.settings(&self.config), &topic.configs))
            }
            // What all brokers without settings of their own have: nobody can give them any while they run.
            RESOURCE_BROKER if name.is_empty() => Ok(Vec::new()),
            RESOURCE_BROKER if *name == self.config.id.to_string() => Ok(describe_broker(&self.config)),
            RESOURCE_BROKER => {
                let message = format!("broker `{name}`: {}, or none, is right here", self.config.id);
                Err((ErrorCode::INVALID_REQUEST, message))
            }
            other => Err((ErrorCode::INVALID_REQUEST, format!("resources of kind {other} have no settings"))),
        }
    }
}

fn shown(
    setting: &Described,
    is_fixed: bool,
    request: &DescribeConfigsRequest,
) -> DescribeConfigsResponseConfig {
    let synonyms = setting.synonyms.iter().filter(|_| request.include_synonyms);
    DescribeConfigsResponseConfig {
        name: setting.name.to_owned(),
        value: Some(setting.value().to_owned()),
        read_only: is_fixed,
        config_source: setting.source() as i8,
        is_sensitive: false,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsResponseSynonym {
                name: synonym.name.to_owned(),
                value: Some(synonym.value.clone()),
                source: synonym.source as i8,
            })
            .collect(),
        config_type: setting.kind as i8,
        documentation: request.include_documentation.then(|| setting.documentation.to_owned()),
    }
}
