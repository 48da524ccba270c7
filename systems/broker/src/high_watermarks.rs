//! What this broker knew to be committed, for its next life: then consumers need not wait for it until enough replicas are in
//! sync again.
//!
//! ```text
//! high-watermarks     body := count:u32 (topic:uuid index:i32 high_watermark:i64)*
//! ```
//! Written every so often, and when the process ends in order. It may lag behind; what it must never do is say that a record
//! is committed that is not. Below the number lies what was committed when it was written, for a log is only cut above,
//! unless a replica leads that lacks committed records. So the file is written anew before anything is appended where a
//! log turns out to end below its number, or is cut there.
//!
//! Source: Kafka's `replication-offset-checkpoint`, `replica.high.watermark.checkpoint.interval.ms`.

use crate::ids::{PartitionKey, TopicId};
use crate::log::files;
use crate::node::{Cx, Running};
use bytes::{Buf, BufMut, BytesMut};
use riprap_env::{Disk, DiskError, log};
use riprap_protocol::Uuid;
use std::collections::BTreeMap;

/// The file's name.
const PATH: &str = "high-watermarks";
/// The version that is written and read.
const VERSION: u8 = 1;

/// How often it is written, if there is anything new. Source: Kafka's default.
const INTERVAL_NS: u64 = 5_000_000_000;

/// The file, and what it says.
#[derive(Debug, Default)]
pub(crate) struct HighWatermarks {
    saved: BTreeMap<PartitionKey, i64>,
    save_at_ns: u64,
}

impl HighWatermarks {
    /// Reads the file. One that is not what was written says nothing, which only makes consumers wait.
    pub(crate) fn open(disk: &mut dyn Disk) -> Result<HighWatermarks, DiskError> {
        let saved = files::read(disk, PATH)?.and_then(|bytes| {
            let mut body = files::unseal(VERSION, &bytes)?;
            let count = body.try_get_u32().ok()?;
            let entries = (0..count).map(|_| {
                let topic = TopicId(Uuid(body.try_get_u128().ok()?.to_be_bytes()));
                let index = body.try_get_i32().ok()?;
                Some((PartitionKey { topic, index }, body.try_get_i64().ok()?))
            });
            entries.collect::<Option<BTreeMap<_, _>>>()
        });
        Ok(HighWatermarks { saved: saved.unwrap_or_default(), save_at_ns: 0 })
    }

    /// What the file says of a partition.
    pub(crate) fn get(&self, key: PartitionKey) -> Option<i64> {
        self.saved.get(&key).copied()
    }

    /// When it is looked at next whether there is anything new.
    pub(crate) fn wake_at_ns(&self) -> u64 {
        self.save_at_ns
    }

    fn save(&mut self, disk: &mut dyn Disk, now: BTreeMap<PartitionKey, i64>) -> Result<(), DiskError> {
        if now == self.saved {
            return Ok(());
        }
        let mut body = BytesMut::new();
        body.put_u32(now.len() as u32);
        for (key, high_watermark) in &now {
            body.put_slice(&key.topic.0.0);
            body.put_i32(key.index);
            body.put_i64(*high_watermark);
        }
        files::replace(disk, "", PATH, &files::seal(VERSION, &body))?;
        self.saved = now;
        Ok(())
    }
}

impl Running {
    /// Writes down what is known to be committed, if it is time.
    pub(crate) fn save_high_watermarks_in_time(&mut self, cx: &mut Cx<'_>) -> Result<(), DiskError> {
        if self.replicas.high_watermarks.save_at_ns > cx.now_ns {
            return Ok(());
        }
        self.replicas.high_watermarks.save_at_ns = cx.now_ns + INTERVAL_NS;
        // Before it has taken up its copies a broker knows nothing, and the file does.
        if self.is_registered() { self.replicas.save_high_watermarks(cx) } else { Ok(()) }
    }

    /// The same, before the process ends in order. A failure costs nothing but time.
    pub(crate) fn save_high_watermarks_last(&mut self, cx: &mut Cx<'_>) {
        if self.is_registered()
            && let Err(e) = self.replicas.save_high_watermarks(cx)
        {
            log!(cx.env, Warn, "cannot write down high watermarks: {e}");
        }
    }
}

impl crate::replicas::Replicas {
    /// Writes down what is known to be committed now.
    pub(crate) fn save_high_watermarks(&mut self, cx: &mut Cx<'_>) -> Result<(), DiskError> {
        let now = self.iter().map(|replica| (replica.key, replica.high_watermark)).collect();
        self.high_watermarks.save(cx.env.disk(), now)
    }

    /// The same at once if the file says of a partition what is not so any more.
    pub(crate) fn take_back_high_watermark(
        &mut self,
        key: PartitionKey,
        cx: &mut Cx<'_>,
    ) -> Result<(), DiskError> {
        let known = self.get(key).map_or(0, |replica| replica.high_watermark);
        if self.high_watermarks.get(key).is_some_and(|saved| saved > known) {
            return self.save_high_watermarks(cx);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riprap_env::MemDisk;

    #[test]
    fn what_is_written_is_read() {
        let key = |topic, index| PartitionKey { topic: TopicId(Uuid([topic; 16])), index };
        let mut disk = MemDisk::new();
        let mut first = HighWatermarks::open(&mut disk).expect("no file is no error");
        assert_eq!(first.get(key(1, 0)), None);
        let now = BTreeMap::from([(key(1, 0), 7), (key(1, 1), i64::MAX), (key(2, 0), 0)]);
        first.save(&mut disk, now.clone()).expect("the disk is well");
        let operations = disk.operations();
        first.save(&mut disk, now).expect("the disk is well");
        assert_eq!(disk.operations(), operations, "nothing is new");
        disk.power_fail(|_| riprap_env::Keep::Lost);
        let again = HighWatermarks::open(&mut disk).expect("the file is there");
        assert_eq!(
            [key(1, 0), key(1, 1), key(2, 0), key(3, 0)].map(|key| again.get(key)),
            [Some(7), Some(i64::MAX), Some(0), None]
        );
        disk.flip_bits(PATH, 30, 1);
        assert_eq!(HighWatermarks::open(&mut disk).expect("it is no error").get(key(1, 0)), None);
    }
}
