//! How a consumer dies.
//!
//! One that is thrown away leaves its group first, which at once gives its keys to others. One whose program has died does
//! not: its connections close, and the group's coordinator waits for it until its session is over.

use rdkafka::bindings::{RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE, rd_kafka_destroy_flags};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use std::mem::ManuallyDrop;

/// Ends a consumer that takes leave of nobody.
///
/// The rdkafka crate has no such end: what it keeps of the consumer (a handle of its queue, the context of its callbacks) is
/// never freed, some hundred bytes for each that dies.
/// Source: librdkafka 2.12.1, rdkafka.h, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE; rdkafka_cgrp.c, rd_kafka_cgrp_leave_maybe.
pub(super) fn without_goodbye<C: ConsumerContext>(consumer: BaseConsumer<C>) {
    let consumer = ManuallyDrop::new(consumer);
    // SAFETY: nobody else has this handle, and nobody uses or destroys it again, for its owner is never dropped; the context
    // that its callbacks are given is never freed either.
    unsafe {
        rd_kafka_destroy_flags(consumer.client().native_ptr(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    }
}
