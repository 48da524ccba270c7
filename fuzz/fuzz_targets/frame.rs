//! Bytes as what a connection delivers, as the body of any message, as batches of records.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use riprap_protocol::frame::{FrameReader, decode_request, max_request_size_bytes};
use riprap_protocol::records::{BATCH_HEADER_BYTES, BatchBuilder, Record, RecordBatch, split_batches};
use riprap_protocol::{Message, Reader};

#[path = "../../systems/protocol/tests/codec/allocations.rs"]
mod allocations;
#[path = "../../systems/protocol/tests/codec/every_message.rs"]
mod every_message;

use allocations::allocated_bytes;
use every_message::EVERY_MESSAGE;

/// What the handles of a frame take: a counter each.
const HANDLE_BYTES: usize = 256;

/// One message's functions without its type.
struct Codec {
    name: &'static str,
    /// The first version and the last.
    versions: (i16, i16),
    check: fn(Bytes, i16),
}

impl Codec {
    const fn of<M: Message>() -> Codec {
        Codec { name: M::NAME, versions: (*M::VERSIONS.start(), *M::VERSIONS.end()), check: check_body::<M> }
    }
}

/// Reads a body within its budget; what is read is written, and read again as the same.
fn check_body<M: Message>(body: Bytes, version: i16) {
    let budget_bytes = Reader::budget_bytes(body.len()) + HANDLE_BYTES;
    let (allocated, read) = allocated_bytes(|| M::decode_all(&mut Reader::new(body), version));
    assert!(allocated <= budget_bytes, "{} bytes where {budget_bytes} are right", allocated);
    if let Ok(message) = read {
        let written = message.to_bytes(version).expect("what a version can say can be said in it again");
        assert_eq!(M::decode_all(&mut Reader::new(written), version), Ok(message));
    }
}

/// A stream of requests, which arrives in pieces.
fn check_stream(piece_bytes: u8, stream: &[u8]) {
    let mut reader = FrameReader::for_requests(max_request_size_bytes);
    for piece in stream.chunks(usize::from(piece_bytes).max(1)) {
        reader.push(piece);
        assert!(reader.buffered_bytes() <= stream.len());
        while let Ok(Some(frame)) = reader.next_frame() {
            let Ok((header, body)) = decode_request(frame) else { continue };
            let name = format!("{}Request", header.api_key);
            let codec =
                EVERY_MESSAGE.iter().find(|codec| codec.name == name).expect("every API has a request");
            (codec.check)(body.rest(), header.api_version);
        }
    }
}

fn check_batches(bytes: &[u8]) {
    split_batches(Bytes::copy_from_slice(bytes))
        .for_each(|batch| drop(batch.map(|batch| check_batch(&batch))));
    // The same, with what a fuzzer cannot guess made right.
    if bytes.len() >= BATCH_HEADER_BYTES {
        let mut bytes = bytes.to_vec();
        bytes[0] &= 0x7f;
        let length = bytes.len() as u32 - 12;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[16] = 2;
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        if let Ok(batch) = RecordBatch::take_first(&mut bytes.into()) {
            check_batch(&batch);
        }
    }
}

/// What can be appended can be built again, record by record.
fn check_batch(batch: &RecordBatch) {
    let Ok(records) = batch.records() else { return };
    let records: Vec<_> = records.collect();
    if batch.check_for_append().is_err() {
        return;
    }
    let records: Vec<Record> = records.into_iter().collect::<Result<_, _>>().expect("just checked");
    let mut builder = BatchBuilder::new();
    for record in &records {
        let headers: Vec<(Bytes, Option<Bytes>)> = record.headers.clone().collect();
        let headers: Vec<_> = headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        let time_ms = record.timestamp_delta;
        builder =
            builder.record_with_headers(time_ms, record.key.as_deref(), record.value.as_deref(), &headers);
    }
    let again = RecordBatch::take_first(&mut builder.build()).expect("our own batch is well-formed");
    assert_eq!(again.check_for_append(), Ok(()));
    let first_ms = records[0].timestamp_delta;
    for (record, again) in records.into_iter().zip(again.records().expect("it is not compressed")) {
        let timestamp_delta = record.timestamp_delta.wrapping_sub(first_ms);
        let again = again.expect("just checked");
        // Numbers may be written longer than they need to be: headers are compared one by one.
        assert!(record.headers.clone().eq(again.headers.clone()));
        let headers = again.headers.clone();
        assert_eq!(Record { timestamp_delta, headers, ..record }, again);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[what, which], rest)) = bytes.split_first_chunk() else { return };
    match what {
        0 => check_stream(which, rest),
        1 => check_batches(rest),
        _ => {
            let codec = &EVERY_MESSAGE[usize::from(what - 2) % EVERY_MESSAGE.len()];
            let (first, last) = codec.versions;
            (codec.check)(Bytes::copy_from_slice(rest), first + i16::from(which) % (last - first + 1));
        }
    }
});
