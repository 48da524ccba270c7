//! One file of a log: batches one after the other, named by the offset of the first.
//!
//! The index, which says where the batch of an offset is and which times are where, is sparse and lives in memory. Of a
//! segment that has ended it is written down (see [`index`](super::index)); of the last one it is made anew from the file
//! when a log is opened, which checks each CRC.

use super::error::{Corruption, LogError};
use super::producers::Producers;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use riprap_env::{Disk, DiskError, FileId};
use riprap_protocol::records::{BATCH_HEADER_BYTES, BatchError, BatchHeader, RecordBatch};
use std::collections::VecDeque;

/// Units: bytes. How much of a segment is read at once when all of it is read.
const SCAN_CHUNK_BYTES: u64 = 1 << 20;

/// A segment of a log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) base_offset: i64,
    pub(super) path: String,
    pub(super) file: FileId,
    /// Up to the end of the last whole batch.
    pub(super) size_bytes: u64,
    /// What was known of producers before the first batch: a truncation starts from here.
    pub(super) producers_before: Producers,
    /// Of the first batch that tells one.
    first_timestamp_ms: Option<i64>,
    index: Vec<Span>,
    /// The last batches, each by itself: who keeps up asks for these, and would have a span read for each.
    recent: VecDeque<Recent>,
}

/// Most batches that are known each by itself: some more than a follower lags behind, in little memory.
const MAX_RECENT: usize = 32;

/// One batch.
#[derive(Clone, Copy, Debug)]
struct Recent {
    first_offset: i64,
    last_offset: i64,
    position: u64,
}

/// Some batches in a row. A batch as large as the index interval is one by itself.
#[derive(Clone, Copy, Debug)]
struct Span {
    first_offset: i64,
    position: u64,
    /// The least number if there are no records.
    max_timestamp: i64,
}

/// Where all batches and times of a segment are.
#[derive(Debug)]
pub(super) struct Spans {
    first_timestamp_ms: Option<i64>,
    index: Vec<Span>,
}

impl Spans {
    /// Reads what [`put_spans`](Segment::put_spans) wrote.
    pub(super) fn take(body: &mut Bytes) -> Option<Spans> {
        let first_timestamp_ms = Some(body.try_get_i64().ok()?).filter(|first| *first >= 0);
        let count = body.try_get_u32().ok()?;
        let index = (0..count).map(|_| {
            Some(Span {
                first_offset: body.try_get_i64().ok()?,
                position: body.try_get_u64().ok()?,
                max_timestamp: body.try_get_i64().ok()?,
            })
        });
        Some(Spans { first_timestamp_ms, index: index.collect::<Option<_>>()? })
    }
}

/// A batch's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) position: u64,
    pub(super) header: BatchHeader,
}

/// The file name of the segment that begins at an offset.
pub(super) fn file_name(base_offset: i64) -> String {
    format!("{base_offset:020}.log")
}

/// The same, of what will take its place.
pub(super) fn cleaned_file_name(base_offset: i64) -> String {
    format!("{base_offset:020}.cleaned")
}

/// Whether it is such a file's.
pub(super) fn is_cleaned_file_name(name: &str) -> bool {
    name.ends_with(".cleaned")
}

/// The offset at which the segment of that file name begins; nothing if it is another file.
pub(super) fn parse_file_name(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(".log")?;
    let plain = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

impl Segment {
    /// Opens the file, creating it if it is not there. What is in it is not looked at.
    pub(super) fn open(
        disk: &mut dyn Disk,
        dir: &str,
        base_offset: i64,
        producers: &Producers,
    ) -> Result<Segment, DiskError> {
        let path = format!("{dir}/{}", file_name(base_offset));
        let file = disk.open(&path)?;
        let producers_before = producers.clone();
        let first_timestamp_ms = None;
        Ok(Segment {
            base_offset,
            path,
            file,
            size_bytes: 0,
            producers_before,
            first_timestamp_ms,
            index: Vec::new(),
            recent: VecDeque::new(),
        })
    }

    /// A segment in a file of its own, empty, that will take the place of one that begins where it does.
    pub(super) fn create_cleaned(
        disk: &mut dyn Disk,
        path: String,
        replaced: &Segment,
    ) -> Result<Segment, DiskError> {
        let file = disk.open(&path)?;
        disk.truncate(file, 0)?;
        let producers_before = replaced.producers_before.clone();
        Ok(Segment {
            base_offset: replaced.base_offset,
            path,
            file,
            size_bytes: 0,
            producers_before,
            first_timestamp_ms: None,
            index: Vec::new(),
            recent: VecDeque::new(),
        })
    }

    /// Takes in a batch that is in the file after those known.
    pub(super) fn append(&mut self, header: &BatchHeader, index_interval_bytes: u64) {
        let position = self.size_bytes;
        let max_timestamp = if header.record_count > 0 { header.max_timestamp } else { i64::MIN };
        self.size_bytes += header.size_bytes as u64;
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        let (first_offset, last_offset) = (header.base_offset, header.last_offset());
        self.recent.push_back(Recent { first_offset, last_offset, position });
        if self.first_timestamp_ms.is_none() {
            self.first_timestamp_ms = Some(max_timestamp).filter(|first| *first >= 0);
        }
        match self.index.last_mut() {
            Some(span)
                if position - span.position < index_interval_bytes
                    && (header.size_bytes as u64) < index_interval_bytes =>
            {
                span.max_timestamp = span.max_timestamp.max(max_timestamp);
            }
            _ => self.index.push(Span { first_offset: header.base_offset, position, max_timestamp }),
        }
    }

    /// Writes where all batches and times are.
    pub(super) fn put_spans(&self, body: &mut BytesMut) {
        body.put_i64(self.first_timestamp_ms.unwrap_or(-1));
        body.put_u32(self.index.len() as u32);
        for Span { first_offset, position, max_timestamp } in &self.index {
            body.put_i64(*first_offset);
            body.put_u64(*position);
            body.put_i64(*max_timestamp);
        }
    }

    /// Takes up what was written of a file of this size.
    pub(super) fn restore(&mut self, spans: Spans, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.first_timestamp_ms = spans.first_timestamp_ms;
        self.index = spans.index;
        self.recent = VecDeque::new();
    }

    /// The greatest timestamp in the segment; none if it has no records.
    pub(super) fn max_timestamp_ms(&self) -> Option<i64> {
        self.max_timestamp_past_ms(i64::MIN)
    }

    /// The same, of those spans that begin above an offset.
    pub(super) fn max_timestamp_past_ms(&self, offset: i64) -> Option<i64> {
        let spans = self.index.iter().filter(|span| span.first_offset > offset);
        spans.map(|span| span.max_timestamp).max().filter(|greatest| *greatest > i64::MIN)
    }

    /// How much older the first batch is than one of this time. Units: milliseconds.
    pub(super) fn age_ms(&self, timestamp_ms: i64) -> i64 {
        self.first_timestamp_ms.map_or(0, |first| timestamp_ms.saturating_sub(first))
    }

    /// Forgets all batches known, before they are read again.
    pub(super) fn forget_batches(&mut self) {
        self.size_bytes = 0;
        self.first_timestamp_ms = None;
        self.index.clear();
        self.recent.clear();
    }

    /// Reads all batches from the first on, up to `size_bytes` of the file.
    pub(super) fn scan(&self, size_bytes: u64) -> Scan {
        Scan { file: self.file, position: 0, end: size_bytes, chunk: Bytes::new() }
    }

    /// Finds the batch that contains an offset, which is in the segment.
    pub(super) fn find(&self, disk: &mut dyn Disk, offset: i64) -> Result<Place, LogError> {
        if let Some(place) = self.find_recent(disk, offset)? {
            return Ok(place);
        }
        let span = self.index.partition_point(|span| span.first_offset <= offset);
        let found =
            self.find_in_span(disk, span.saturating_sub(1), |header| header.last_offset() >= offset)?;
        let missing = BatchError::CutOff { need: BATCH_HEADER_BYTES, have: 0 };
        found.ok_or_else(|| self.corrupt(self.size_bytes, missing.into()))
    }

    /// The same among the last batches. Nothing also if its bytes are not those of the batch: a walk says what is wrong.
    fn find_recent(&self, disk: &mut dyn Disk, offset: i64) -> Result<Option<Place>, LogError> {
        if self.recent.front().is_none_or(|first| offset < first.first_offset) {
            return Ok(None);
        }
        let at = self.recent.partition_point(|batch| batch.last_offset < offset);
        let Some(Recent { first_offset, last_offset, position }) = self.recent.get(at).copied() else {
            return Ok(None);
        };
        let mut bytes = [0; BATCH_HEADER_BYTES];
        disk.read_at(self.file, position, &mut bytes)?;
        let header = BatchHeader::parse(&bytes).ok();
        let is_it =
            |header: &BatchHeader| (header.base_offset, header.last_offset()) == (first_offset, last_offset);
        Ok(header.filter(is_it).map(|header| Place { position, header }))
    }

    /// Forgets what is known of single batches: others are added to the log from now on.
    pub(super) fn end(&mut self) {
        self.recent = VecDeque::new();
    }

    /// Finds the first batch that reaches `from_offset` and has a timestamp that is not below this one.
    pub(super) fn find_timestamp(
        &self,
        disk: &mut dyn Disk,
        timestamp_ms: i64,
        from_offset: i64,
    ) -> Result<Option<Place>, LogError> {
        let wanted = |header: &BatchHeader| {
            header.max_timestamp >= timestamp_ms
                && header.last_offset() >= from_offset
                && header.record_count > 0
        };
        let first = self.index.partition_point(|span| span.first_offset <= from_offset).saturating_sub(1);
        for span in first..self.index.len() {
            if self.index[span].max_timestamp >= timestamp_ms
                && let Some(place) = self.find_in_span(disk, span, wanted)?
            {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn find_in_span(
        &self,
        disk: &mut dyn Disk,
        span: usize,
        wanted: impl Fn(&BatchHeader) -> bool,
    ) -> Result<Option<Place>, LogError> {
        let start = self.index[span].position;
        let end = self.index.get(span + 1).map_or(self.size_bytes, |next| next.position);
        let mut position = start;
        // All headers of the span but for the last batch's bytes; of a batch that fills its span only the header.
        let mut headers = Bytes::new();
        while position < end {
            let at = usize::try_from(position - start).expect("a span fits in memory");
            let parsed = BatchHeader::parse(headers.get(at..).unwrap_or_default());
            match parsed {
                Ok(header) if wanted(&header) => return Ok(Some(Place { position, header })),
                Ok(header) => position += header.size_bytes as u64,
                Err(BatchError::CutOff { .. }) if (headers.len() as u64) < end - start => {
                    let more = (at + FIND_CHUNK_BYTES).max(headers.len() + FIND_CHUNK_BYTES);
                    headers = self.read(disk, start, (end - start).min(more as u64))?;
                }
                Err(why) => return Err(self.corrupt(position, why.into())),
            }
        }
        Ok(None)
    }

    /// Where to stop reading so as to have all batches below an offset, and few above.
    pub(super) fn position_past(&self, offset: i64) -> u64 {
        let span = self.index.partition_point(|span| span.first_offset < offset);
        self.index.get(span).map_or(self.size_bytes, |span| span.position)
    }

    /// Reads `len` bytes of the file.
    pub(super) fn read(&self, disk: &mut dyn Disk, position: u64, len: u64) -> Result<Bytes, DiskError> {
        read(disk, self.file, position, len)
    }

    /// The error for bytes of this segment that are not as they should be.
    pub(super) fn corrupt(&self, position: u64, why: Corruption) -> LogError {
        LogError::Corrupt { path: self.path.clone(), position, why }
    }
}

/// Units: bytes. How much is read at once to find a batch: about an index interval.
const FIND_CHUNK_BYTES: usize = 8192;

fn read(disk: &mut dyn Disk, file: FileId, position: u64, len: u64) -> Result<Bytes, DiskError> {
    let mut bytes = vec![0; usize::try_from(len).expect("what is read at once fits in memory")];
    disk.read_at(file, position, &mut bytes)?;
    Ok(bytes.into())
}

/// A walk over all batches of a segment.
#[derive(Debug)]
pub(super) struct Scan {
    file: FileId,
    /// Where the next batch begins.
    pub(super) position: u64,
    end: u64,
    chunk: Bytes,
}

impl Scan {
    /// The next batch; nothing at the end. After an error, `position` is where the bytes are that are no batch.
    pub(super) fn next(
        &mut self,
        disk: &mut dyn Disk,
    ) -> Result<Option<Result<RecordBatch, BatchError>>, DiskError> {
        let left = self.end - self.position;
        if left == 0 {
            return Ok(None);
        }
        if self.chunk.len() < BATCH_HEADER_BYTES {
            self.chunk = read(disk, self.file, self.position, left.min(SCAN_CHUNK_BYTES))?;
        }
        let mut batch = RecordBatch::take_first(&mut self.chunk);
        if let Err(BatchError::CutOff { need, .. }) = batch {
            // A length that the file does not have room for is not worth the memory.
            if need as u64 > left {
                let have = usize::try_from(left).unwrap_or(usize::MAX);
                return Ok(Some(Err(BatchError::CutOff { need, have })));
            }
            self.chunk = read(disk, self.file, self.position, left.min(SCAN_CHUNK_BYTES.max(need as u64)))?;
            batch = RecordBatch::take_first(&mut self.chunk);
        }
        if let Ok(batch) = &batch {
            self.position += batch.header().size_bytes as u64;
        }
        Ok(Some(batch))
    }
}
