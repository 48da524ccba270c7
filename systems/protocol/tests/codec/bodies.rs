//! Makes valid bodies from the tables: a second encoder, which knows tables where the crate's knows structs.
//!
//! The bodies are canonical (a tagged field at its default is left out), so that they must come back byte for byte.

use proptest::prelude::*;

use crate::schema::{self, Base, Field, Message, Versions};

/// Bytes that decide what a body says; when they run out, everything is zero, empty and absent. Shrinks well.
pub(crate) struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    /// Mostly small numbers, sometimes the extremes.
    fn integer(&mut self) -> i64 {
        match self.below(8) {
            0..=3 => i64::from(self.byte()),
            4 => -1,
            5 => i64::MIN,
            6 => i64::MAX,
            _ => i64::from_be_bytes(std::array::from_fn(|_| self.byte())),
        }
    }
}

/// Deciding bytes for one body.
pub(crate) fn choices() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..400)
}

/// Every message of the tables.
pub(crate) fn every_message() -> Vec<Message> {
    schema::load().into_iter().flat_map(|schema| schema.messages).collect()
}

pub(crate) fn contains(versions: Versions, version: i16) -> bool {
    versions.first <= version && version <= versions.last
}

/// A body of `message` in `version`.
pub(crate) fn body(message: &Message, version: i16, choices: &[u8]) -> Vec<u8> {
    let is_flexible = message.flexible_since.is_some_and(|since| version >= since);
    let mut encoder = Encoder { message, version, is_flexible, choices: Choices(choices), out: Vec::new() };
    encoder.structure(0);
    encoder.out
}

struct Encoder<'a> {
    message: &'a Message,
    version: i16,
    is_flexible: bool,
    choices: Choices<'a>,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn structure(&mut self, index: usize) {
        let message = self.message;
        let item = &message.structs[index];
        let (tagged, plain): (Vec<&Field>, Vec<&Field>) = item
            .fields
            .iter()
            .filter(|field| contains(field.versions(item.versions), self.version))
            .partition(|field| field.tag.is_some());
        for field in plain {
            self.field(field);
        }
        if !self.is_flexible {
            return;
        }
        let mut tags = Vec::new();
        for field in tagged {
            let value = self.apart(|encoder| encoder.field(field));
            let default = self.default_of(field, item.versions);
            if value != default {
                tags.push((field.tag.expect("it was selected for its tag"), value));
            }
        }
        tags.sort();
        self.varint(tags.len());
        for (tag, value) in tags {
            self.varint(tag as usize);
            self.varint(value.len());
            self.out.extend(value);
        }
    }

    fn field(&mut self, field: &Field) {
        let is_nullable = field.nullable_since.is_some_and(|since| self.version >= since);
        if is_nullable && self.choices.below(4) == 0 {
            self.null(field);
        } else if field.is_nullable_struct() {
            self.out.push(1);
            self.value(field);
        } else if field.array {
            let count = self.choices.below(4);
            self.length(field, usize::from(count));
            for _ in 0..count {
                self.value(field);
            }
        } else {
            self.value(field);
        }
    }

    fn value(&mut self, field: &Field) {
        match field.base {
            Base::Bool => {
                let byte = self.choices.below(2);
                self.out.push(byte);
            }
            Base::I8 => {
                let value = self.choices.integer() as i8;
                self.out.extend(value.to_be_bytes());
            }
            Base::I16 | Base::Error => {
                let value = self.choices.integer() as i16;
                self.out.extend(value.to_be_bytes());
            }
            Base::I32 => {
                let value = self.choices.integer() as i32;
                self.out.extend(value.to_be_bytes());
            }
            Base::I64 => {
                let value = self.choices.integer();
                self.out.extend(value.to_be_bytes());
            }
            Base::Uuid => {
                let value: [u8; 16] = std::array::from_fn(|_| self.choices.byte());
                self.out.extend(value);
            }
            Base::String => {
                let length = self.choices.below(12);
                let text: String = (0..length)
                    .map(|_| ['a', 'b', '.', '-', 'é', '水'][usize::from(self.choices.below(6))])
                    .collect();
                self.string_length(text.len());
                self.out.extend(text.into_bytes());
            }
            Base::Bytes => {
                let length = usize::from(self.choices.below(20));
                let bytes: Vec<u8> = (0..length).map(|_| self.choices.byte()).collect();
                self.wide_length(length);
                self.out.extend(bytes);
            }
            Base::Struct(index) => self.structure(index),
        }
    }

    /// What the field would be if it were left out.
    fn default_of(&mut self, field: &Field, outer: Versions) -> Vec<u8> {
        let default = field.default.as_deref();
        let number = || default.map_or(0, |text| text.parse::<i64>().expect("a number"));
        self.apart(|encoder| match (field.nullable_since, field.array, field.base) {
            (Some(since), _, _) if since <= field.versions(outer).first => encoder.null(field),
            (_, true, _) | (_, _, Base::String | Base::Bytes) => encoder.length(field, 0),
            (_, _, Base::Bool) => encoder.out.push(u8::from(default == Some("true"))),
            (_, _, Base::I8) => encoder.out.extend((number() as i8).to_be_bytes()),
            (_, _, Base::I16 | Base::Error) => encoder.out.extend((number() as i16).to_be_bytes()),
            (_, _, Base::I32) => encoder.out.extend((number() as i32).to_be_bytes()),
            (_, _, Base::I64) => encoder.out.extend(number().to_be_bytes()),
            (_, _, Base::Uuid) => encoder.out.extend([0; 16]),
            (_, _, Base::Struct(index)) => {
                let item = &encoder.message.structs[index];
                for inner in item.fields.iter().filter(|inner| inner.tag.is_none()) {
                    let value = encoder.default_of(inner, item.versions);
                    encoder.out.extend(value);
                }
                encoder.varint(0);
            }
        })
    }

    /// What `write` appends, but not appended.
    fn apart(&mut self, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let before = std::mem::take(&mut self.out);
        write(self);
        std::mem::replace(&mut self.out, before)
    }

    fn length(&mut self, field: &Field, length: usize) {
        if field.base == Base::String && !field.array {
            self.string_length(length);
        } else {
            self.wide_length(length);
        }
    }

    fn string_length(&mut self, length: usize) {
        if self.is_flexible {
            self.varint(length + 1);
        } else {
            self.out.extend((length as i16).to_be_bytes());
        }
    }

    fn wide_length(&mut self, length: usize) {
        if self.is_flexible {
            self.varint(length + 1);
        } else {
            self.out.extend((length as i32).to_be_bytes());
        }
    }

    fn null(&mut self, field: &Field) {
        match (self.is_flexible, field.base, field.array) {
            (_, Base::Struct(_), false) => self.out.push(0xff),
            (true, _, _) => self.out.push(0),
            (false, Base::String, false) => self.out.extend([0xff; 2]),
            (false, _, _) => self.out.extend([0xff; 4]),
        }
    }

    fn varint(&mut self, mut value: usize) {
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            self.out.push(if value > 0 { low | 0x80 } else { low });
            if value == 0 {
                return;
            }
        }
    }
}
