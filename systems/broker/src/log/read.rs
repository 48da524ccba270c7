//! What looks into a log: by offset and by time.

use super::segment::{Place, Segment};
use super::{Corruption, LogError, PartitionLog, ReadError, ReadLimits, TimestampOffset};
use bytes::Bytes;
use riprap_env::Disk;
use riprap_protocol::records::{BatchError, BatchHeader, Compression, RecordBatch, TimestampType};

impl PartitionLog {
    /// Reads whole batches, from the one that contains `from_offset` on. At the log's end: nothing. Each batch's CRC is
    /// checked, and that its offsets go on where those before end: what has rotted is not passed on.
    pub fn read(
        &self,
        disk: &mut dyn Disk,
        from_offset: i64,
        limits: ReadLimits,
    ) -> Result<Bytes, ReadError> {
        self.check_works()?;
        let (log_start_offset, log_end_offset) = (self.log_start_offset(), self.log_end_offset);
        if from_offset < log_start_offset || from_offset > log_end_offset {
            return Err(ReadError::OffsetOutOfRange {
                offset: from_offset,
                log_start_offset,
                log_end_offset,
            });
        }
        if from_offset >= limits.below_offset.min(log_end_offset) {
            return Ok(Bytes::new());
        }
        Ok(self.read_batches(disk, from_offset, limits)?)
    }

    fn read_batches(
        &self,
        disk: &mut dyn Disk,
        from_offset: i64,
        limits: ReadLimits,
    ) -> Result<Bytes, LogError> {
        let start = self.segment_of(from_offset);
        let Place { mut position, header: first } = self.segments[start].find(disk, from_offset)?;
        let mut max_bytes = limits.max_bytes;
        if limits.at_least_one_batch {
            max_bytes = max_bytes.max(first.size_bytes);
        }
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut next_offset = from_offset;
        for segment in &self.segments[start..] {
            let end = segment.position_past(limits.below_offset);
            let left = end.saturating_sub(position);
            let want = left.min(max_bytes as u64);
            let chunk = segment.read(disk, position, want)?;
            let is_to_end = position + want == segment.size_bytes;
            // All batches below the limit are whole in what is read.
            let has_all_below = want == left;
            let mut taken = 0;
            while taken < chunk.len() {
                let corrupt = |why| segment.corrupt(position + taken as u64, why);
                let mut rest = chunk.slice(taken..);
                let header = match BatchHeader::parse(&rest) {
                    Ok(header) if header.size_bytes <= rest.len() => header,
                    Ok(header) if has_all_below && header.next_offset() <= limits.below_offset => {
                        let (need, have) = (header.size_bytes, rest.len());
                        return Err(corrupt(BatchError::CutOff { need, have }.into()));
                    }
                    Ok(_) | Err(BatchError::CutOff { .. }) if !is_to_end => break,
                    Ok(header) => {
                        let (need, have) = (header.size_bytes, rest.len());
                        return Err(corrupt(BatchError::CutOff { need, have }.into()));
                    }
                    Err(why) => return Err(corrupt(why.into())),
                };
                let found = header.base_offset;
                if found != next_offset && (taken > 0 || !pieces.is_empty() || found > next_offset) {
                    return Err(corrupt(Corruption::Offset { expected: next_offset, found }));
                }
                if header.next_offset() > limits.below_offset {
                    // By what it says of itself, which may be what has rotted: nobody is to take its place for the end.
                    RecordBatch::take_first(&mut rest).map_err(|why| corrupt(why.into()))?;
                    break;
                }
                // The batch's checksum does not cover its epoch.
                if let Some(last) = self.epochs.of_offset(found.max(self.start_offset))
                    && last != header.leader_epoch
                {
                    return Err(corrupt(Corruption::LeaderEpoch { last, found: header.leader_epoch }));
                }
                RecordBatch::take_first(&mut rest).map_err(|why| corrupt(why.into()))?;
                taken += header.size_bytes;
                next_offset = header.next_offset();
            }
            max_bytes -= taken;
            let whole_segment = position + taken as u64 == segment.size_bytes;
            let mut whole_from = 0;
            if pieces.is_empty() && taken > 0 && first.is_filler() && first.base_offset < from_offset {
                // Who has what is below goes on from there, on a follower exactly.
                let BatchHeader { leader_epoch, size_bytes, .. } = first;
                let rest = RecordBatch::filler(from_offset, first.last_offset(), leader_epoch);
                pieces.push(rest.bytes().clone());
                whole_from = size_bytes;
            }
            pieces.push(chunk.slice(whole_from..taken));
            if !whole_segment {
                break;
            }
            position = 0;
        }
        Ok(match <[Bytes; 1]>::try_from(pieces) {
            Ok([only]) => only,
            Err(pieces) => pieces.concat().into(),
        })
    }

    /// Finds the first record with the greatest timestamp. None: there are no records.
    pub fn newest_record(&self, disk: &mut dyn Disk) -> Result<Option<TimestampOffset>, LogError> {
        let all = self.segments.iter().filter_map(Segment::max_timestamp_ms).max();
        let Some(greatest) = all else { return Ok(None) };
        if let Some(found) = self.offset_for_timestamp(disk, greatest)? {
            return Ok(Some(found));
        }
        // Its record lies below the start, in the span of the index that the start is in: what is greater than all past
        // that span is in it, and few.
        let past = |segment: &Segment| segment.max_timestamp_past_ms(self.start_offset);
        let past = self.segments.iter().filter_map(past).max().unwrap_or(i64::MIN);
        let mut newest = self.offset_for_timestamp(disk, past)?;
        while let Some(above) = newest.and_then(|found| found.timestamp_ms.checked_add(1)) {
            match self.offset_for_timestamp(disk, above)? {
                Some(found) => newest = Some(found),
                None => break,
            }
        }
        Ok(newest)
    }

    /// Finds the first record whose timestamp is at least this. None: all are older.
    ///
    /// In compressed batches records cannot be told apart: the batch's first offset stands for the record, so that
    /// nothing is missed.
    pub fn offset_for_timestamp(
        &self,
        disk: &mut dyn Disk,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, LogError> {
        self.check_works()?;
        let mut from_offset = self.start_offset;
        for segment in &self.segments {
            while let Some(Place { position, header }) =
                segment.find_timestamp(disk, timestamp_ms, from_offset)?
            {
                if let Some(found) = self.record_at_time(disk, segment, position, &header, timestamp_ms)? {
                    return Ok(Some(found));
                }
                from_offset = header.next_offset();
            }
        }
        Ok(None)
    }

    /// The first record of a batch, and of the log, whose timestamp is at least this.
    fn record_at_time(
        &self,
        disk: &mut dyn Disk,
        segment: &Segment,
        position: u64,
        header: &BatchHeader,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, LogError> {
        let BatchHeader { base_offset, base_timestamp, max_timestamp, leader_epoch, .. } = *header;
        let offset = base_offset.max(self.start_offset);
        let as_whole = Some(TimestampOffset { offset, timestamp_ms: max_timestamp, leader_epoch });
        if header.timestamp_type() == TimestampType::LogAppendTime
            || header.compression() != Compression::None
        {
            return Ok(as_whole);
        }
        let mut bytes = segment.read(disk, position, header.size_bytes as u64)?;
        let corrupt = |why| segment.corrupt(position, Corruption::Batch(why));
        let batch = RecordBatch::take_first(&mut bytes).map_err(corrupt)?;
        for record in batch.records().map_err(corrupt)? {
            let record = record.map_err(corrupt)?;
            let found_ms = base_timestamp.wrapping_add(record.timestamp_delta);
            let offset = base_offset + i64::from(record.offset_delta);
            if found_ms >= timestamp_ms && offset >= self.start_offset {
                return Ok(Some(TimestampOffset { offset, timestamp_ms: found_ms, leader_epoch }));
            }
        }
        // Either the record is below the start, or the header promised a timestamp that no record has: a producer's
        // mistake. Then nothing is to be missed.
        Ok(as_whole.filter(|_| base_offset >= self.start_offset))
    }
}
