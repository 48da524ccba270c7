//! Writes `src/messages/` and the tests' list of messages from the tables in `schema/`, or checks that they are up to date.
//!
//! `RIPRAP_REGENERATE=1 cargo test -p riprap-protocol --test generate` writes; without the variable the test compares. The
//! output is laid out as rustfmt would, so that formatting the crate changes nothing.

mod schema;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use schema::{Api, Base, Field, Message, Schema, Struct, Versions};

/// rustfmt.toml's `max_width`.
const MAX_WIDTH: usize = 110;

#[test]
fn generated_files_are_up_to_date() {
    let schemas = schema::load();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut outputs = vec![
        ("src/messages/mod.rs".to_owned(), index(&schemas)),
        ("tests/codec/every_message.rs".to_owned(), every_message(&schemas)),
    ];
    for schema in &schemas {
        outputs.push((format!("src/messages/{}.rs", schema.stem), module(schema)));
    }
    let write = std::env::var_os("RIPRAP_REGENERATE").is_some_and(|value| value == "1");
    for (path, text) in outputs {
        let file = root.join(&path);
        if write {
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("the folder can be made");
            fs::write(&file, text).expect("the file can be written");
        } else {
            let found = fs::read_to_string(&file).unwrap_or_default();
            assert!(found == text, "{path} is not what schema/ says: run with RIPRAP_REGENERATE=1");
        }
    }
}

/// The module that names the others, and the table of APIs.
fn index(schemas: &[Schema]) -> String {
    let mut out = String::from(
        "//! Every message of the protocol as a plain struct, and the table of APIs.\n\
         //!\n\
         //! Generated from `schema/` by `tests/generate.rs`: do not edit.\n\n\
         #![allow(missing_docs)]\n\n\
         use crate::api::ApiSpec;\n\n",
    );
    for schema in schemas {
        writeln!(out, "mod {};", schema.stem).expect("a string");
    }
    out.push('\n');
    for schema in schemas {
        writeln!(out, "pub use {}::*;", schema.stem).expect("a string");
    }
    let mut apis: Vec<&Api> = schemas.iter().flat_map(|schema| &schema.apis).collect();
    apis.sort_by_key(|api| api.key);
    out.push_str("\n/// What a request asks for, by the number on the wire.\n");
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n#[repr(i16)]\npub enum ApiKey {\n");
    for api in &apis {
        writeln!(out, "    {} = {},", api.name, api.key).expect("a string");
    }
    out.push_str("}\n\npub(crate) static API_SPECS: &[ApiSpec] = &[\n");
    for api in &apis {
        let Versions { first, last } = api.versions;
        let flexible = api.flexible_since.unwrap_or(i16::MAX);
        writeln!(out, "    ApiSpec::new(ApiKey::{0}, \"{0}\", {first}, {last}, {flexible}),", api.name)
            .expect("a string");
    }
    out.push_str("];\n");
    out
}

/// The list of messages that the tests walk.
fn every_message(schemas: &[Schema]) -> String {
    let mut out = String::from(
        "//! Every message, to be walked by the tests. Generated from `schema/` by `tests/generate.rs`: do not edit.\n\n\
         use riprap_protocol::messages::*;\n\n\
         use crate::Codec;\n\n\
         pub(crate) static EVERY_MESSAGE: &[Codec] = &[\n",
    );
    for message in schemas.iter().flat_map(|schema| &schema.messages) {
        writeln!(out, "    Codec::of::<{}>(),", message.name).expect("a string");
    }
    out.push_str("];\n");
    out
}

/// The messages of one file of tables.
fn module(schema: &Schema) -> String {
    let mut out = format!(
        "//! Generated from `schema/{}.schema` by `tests/generate.rs`: do not edit.\n\n",
        schema.stem
    );
    let uses = |base| {
        let mut fields = schema.messages.iter().flat_map(|m| &m.structs).flat_map(|s| &s.fields);
        fields.any(|field| field.base == base)
    };
    out.push_str("use std::ops::RangeInclusive;\n\n");
    if uses(Base::Bytes) {
        out.push_str("use bytes::Bytes;\n\n");
    }
    if !schema.apis.is_empty() {
        out.push_str("use super::ApiKey;\n");
    }
    let mut names = Vec::new();
    if uses(Base::Error) {
        names.push("ErrorCode");
    }
    names.push("Message");
    if !schema.apis.is_empty() {
        names.push("Request");
    }
    if uses(Base::Uuid) {
        names.push("Uuid");
    }
    let wire = "use crate::wire::{DecodeError, EncodeError, Reader, Wire, Writer};\n";
    match names[..] {
        // rustfmt sorts a list behind the module's path, but a single name before it.
        [name] => write!(out, "use crate::{name};\n{wire}"),
        _ => writeln!(out, "{wire}use crate::{{{}}};", names.join(", ")),
    }
    .expect("a string");
    for message in &schema.messages {
        let Versions { first, last } = message.versions;
        let api = schema.apis.iter().find(|api| message.name == format!("{}Request", api.name));
        for (position, item) in message.structs.iter().enumerate() {
            out.push('\n');
            if position == 0 {
                writeln!(out, "/// Versions {first} to {last}.").expect("a string");
            }
            structure(&mut out, message, item);
            if position == 0 {
                writeln!(
                    out,
                    "\nimpl Message for {0} {{\n    const NAME: &'static str = \"{0}\";\n    \
                     const VERSIONS: RangeInclusive<i16> = {first}..={last};\n    const FLEXIBLE_SINCE: i16 = {1};\n}}",
                    message.name,
                    message.flexible_since.map_or("i16::MAX".to_owned(), |since| since.to_string()),
                )
                .expect("a string");
            }
        }
        if let Some(api) = api {
            writeln!(
                out,
                "\nimpl Request for {0}Request {{\n    const KEY: ApiKey = ApiKey::{0};\n    type Response = {0}Response;\n}}",
                api.name
            )
            .expect("a string");
        }
    }
    out
}

fn structure(out: &mut String, message: &Message, item: &Struct) {
    let plain = item.fields.iter().all(|field| field_default(field, item).is_none());
    let default = if plain { ", Default" } else { "" };
    writeln!(out, "#[derive(Clone, Debug{default}, PartialEq)]\npub struct {} {{", item.name)
        .expect("a string");
    for field in &item.fields {
        writeln!(out, "    pub {}: {},", field.name, rust_type(field, message)).expect("a string");
    }
    out.push_str("}\n");
    if !plain {
        writeln!(out, "\nimpl Default for {} {{\n    fn default() -> Self {{", item.name).expect("a string");
        let values: Vec<String> = item
            .fields
            .iter()
            .map(|field| {
                let value = field_default(field, item).unwrap_or_else(|| zero(field));
                format!("{}: {value}", field.name)
            })
            .collect();
        let one_line = format!("        Self {{ {} }}", values.join(", "));
        if one_line.len() <= MAX_WIDTH {
            writeln!(out, "{one_line}").expect("a string");
        } else {
            writeln!(out, "        Self {{\n            {},\n        }}", values.join(",\n            "))
                .expect("a string");
        }
        out.push_str("    }\n}\n");
    }
    writeln!(out, "\nimpl Wire for {} {{", item.name).expect("a string");
    write_function(out, item);
    out.push('\n');
    read_function(out, item);
    out.push_str("}\n");
}

/// `fn write`: one statement a field, tagged fields last.
fn write_function(out: &mut String, item: &Struct) {
    out.push_str("    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {\n");
    for field in item.fields.iter().filter(|field| field.tag.is_none()) {
        if let Some(before) = non_null_range(field, item) {
            statement(out, &format!("w.non_null({before}, &self.{0}, \"{0}\")?;", field.name));
        }
        let name = &field.name;
        match range(field, item) {
            None if field.is_nullable_struct() => {
                statement(out, &format!("w.put_struct(&self.{name})?;"));
            }
            None => statement(out, &format!("w.put(&self.{name})?;")),
            Some(range) if field.ignorable => statement(out, &format!("w.put_in({range}, &self.{name})?;")),
            Some(range) => {
                let test = default_test(field, item);
                statement(out, &format!("w.put_or_default({range}, &self.{name}, {test}, \"{name}\")?;"));
            }
        }
    }
    let tagged: Vec<&Field> = item.fields.iter().filter(|field| field.tag.is_some()).collect();
    if tagged.is_empty() {
        out.push_str("        w.no_tags()\n    }\n");
        return;
    }
    out.push_str("        let mut tags = w.tags();\n");
    for field in tagged {
        let (name, tag) = (&field.name, field.tag.expect("it was selected for its tag"));
        let range = range(field, item).unwrap_or_else(|| "..".to_owned());
        let test = default_test(field, item);
        let function = if field.ignorable { "put_in" } else { "put" };
        let quoted = if field.ignorable { String::new() } else { format!(", \"{name}\"") };
        statement(out, &format!("tags.{function}({tag}, {range}, &self.{name}, {test}{quoted})?;"));
    }
    out.push_str("        w.finish_tags(tags)\n    }\n");
}

/// `fn read`: starts from the defaults and fills in what this version carries.
fn read_function(out: &mut String, item: &Struct) {
    out.push_str(
        "    fn read(r: &mut Reader) -> Result<Self, DecodeError> {\n        let mut it = Self::default();\n",
    );
    for field in item.fields.iter().filter(|field| field.tag.is_none()) {
        let name = &field.name;
        match range(field, item) {
            None if field.is_nullable_struct() => {
                statement(out, &format!("r.get_struct(&mut it.{name})?;"));
            }
            None => statement(out, &format!("r.get(&mut it.{name})?;")),
            Some(range) => statement(out, &format!("r.get_in({range}, &mut it.{name})?;")),
        }
        if let Some(before) = non_null_range(field, item) {
            statement(out, &format!("r.non_null({before}, &it.{name})?;"));
        }
    }
    let tagged: Vec<&Field> = item.fields.iter().filter(|field| field.tag.is_some()).collect();
    if tagged.is_empty() {
        out.push_str("        r.skip_tags()?;\n");
    } else {
        out.push_str("        r.tags(|r, tag| match tag {\n");
        for field in tagged {
            let tag = field.tag.expect("it was selected for its tag");
            let range = range(field, item).unwrap_or_else(|| "..".to_owned());
            writeln!(out, "            {tag} => r.get_in({range}, &mut it.{}),", field.name)
                .expect("a string");
        }
        out.push_str("            _ => Ok(false),\n        })?;\n");
    }
    out.push_str("        Ok(it)\n    }\n");
}

/// One call, broken at its arguments if it is too long for a line; no argument holds a comma.
fn statement(out: &mut String, text: &str) {
    if text.len() + 8 <= MAX_WIDTH {
        writeln!(out, "        {text}").expect("a string");
        return;
    }
    let (function, arguments) = text.split_once('(').expect("a statement is a call");
    let arguments = arguments.strip_suffix(")?;").expect("a call may fail");
    writeln!(out, "        {function}(").expect("a string");
    for argument in arguments.split(", ") {
        writeln!(out, "            {argument},").expect("a string");
    }
    out.push_str("        )?;\n");
}

/// The versions that carry a field as a Rust range, or none if all that carry its struct do.
fn range(field: &Field, item: &Struct) -> Option<String> {
    let versions = field.versions(item.versions);
    let starts_later = versions.first > item.versions.first;
    let ends_earlier = versions.last < item.versions.last;
    match (starts_later, ends_earlier) {
        (false, false) => None,
        (true, false) => Some(format!("{}..", versions.first)),
        (false, true) => Some(format!("..={}", versions.last)),
        (true, true) => Some(format!("{}..={}", versions.first, versions.last)),
    }
}

/// The versions that carry a field which may be null in later versions only.
fn non_null_range(field: &Field, item: &Struct) -> Option<String> {
    let versions = field.versions(item.versions);
    let since = field.nullable_since?;
    (since > versions.first).then(|| format!("..{since}"))
}

fn rust_type(field: &Field, message: &Message) -> String {
    let base = match field.base {
        Base::Bool => "bool",
        Base::I8 => "i8",
        Base::I16 => "i16",
        Base::I32 => "i32",
        Base::I64 => "i64",
        Base::String => "String",
        Base::Bytes => "Bytes",
        Base::Uuid => "Uuid",
        Base::Error => "ErrorCode",
        Base::Struct(index) => &message.structs[index].name,
    };
    let repeated = if field.array { format!("Vec<{base}>") } else { base.to_owned() };
    if field.nullable_since.is_some() { format!("Option<{repeated}>") } else { repeated }
}

/// The value of an absent field where it differs from the Rust type's default. A value that may be null in every version
/// defaults to null; one that only later versions allow to be null defaults to empty, so that all versions can encode it.
fn field_default(field: &Field, item: &Struct) -> Option<String> {
    if let Some(default) = &field.default {
        return (default != &zero(field)).then(|| default.clone());
    }
    let empty = if field.array { "Vec::new()" } else { "String::new()" };
    non_null_range(field, item).map(|_| format!("Some({empty})"))
}

/// The Rust type's default as an expression.
fn zero(field: &Field) -> String {
    match (field.nullable_since, field.array, field.base) {
        (Some(_), _, _) => "None",
        (None, true, _) => "Vec::new()",
        (None, false, Base::Bool) => "false",
        (None, false, Base::I8 | Base::I16 | Base::I32 | Base::I64) => "0",
        (None, false, Base::String) => "String::new()",
        (None, false, Base::Bytes) => "Bytes::new()",
        (None, false, Base::Uuid) => "Uuid::ZERO",
        (None, false, Base::Error) => "ErrorCode::NONE",
        (None, false, Base::Struct(_)) => "Default::default()",
    }
    .to_owned()
}

/// An expression that says whether the field holds its default.
fn default_test(field: &Field, item: &Struct) -> String {
    let name = &field.name;
    if field.nullable_since.is_some() {
        return match (field_default(field, item), field.array) {
            (None, _) => format!("self.{name}.is_none()"),
            (Some(_), true) => format!("self.{name}.as_ref().is_some_and(Vec::is_empty)"),
            (Some(_), false) => format!("self.{name}.as_deref() == Some(\"\")"),
        };
    }
    match (field.array, field.base) {
        (true, _) | (false, Base::String | Base::Bytes) => format!("self.{name}.is_empty()"),
        (false, Base::Bool) if field.default.as_deref() == Some("true") => format!("self.{name}"),
        (false, Base::Bool) => format!("!self.{name}"),
        (false, _) => {
            let value = field_default(field, item).unwrap_or_else(|| zero(field));
            format!("self.{name} == {value}")
        }
    }
}
