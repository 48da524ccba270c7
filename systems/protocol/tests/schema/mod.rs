//! Reads the tables in `schema/`: the grammar is in the README. Used by the generator and by the tests that make bodies from the tables.

use std::fmt;
use std::fs;
use std::path::Path;

/// Versions from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) first: i16,
    pub(crate) last: i16,
}

impl Versions {
    fn within(self, outer: Versions) -> Versions {
        Versions { first: self.first.max(outer.first), last: self.last.min(outer.last) }
    }

    fn hull(self, other: Versions) -> Versions {
        Versions { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// `3-12`, `3+` or `3`.
    fn parse(text: &str) -> Option<Versions> {
        if let Some(first) = text.strip_suffix('+') {
            return Some(Versions { first: first.parse().ok()?, last: i16::MAX });
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(Versions { first: first.parse().ok()?, last: last.parse().ok()? })
    }
}

/// What one value is, before it is repeated or made nullable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Bool,
    I8,
    I16,
    I32,
    I64,
    String,
    Bytes,
    Uuid,
    Error,
    /// An index into the message's structs.
    Struct(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) base: Base,
    pub(crate) array: bool,
    /// First version in which the value may be null.
    pub(crate) nullable_since: Option<i16>,
    /// None: whenever the struct itself is there.
    explicit: Option<Versions>,
    pub(crate) tag: Option<u32>,
    pub(crate) default: Option<String>,
    pub(crate) ignorable: bool,
}

impl Field {
    /// The versions that carry this field, given those that carry its struct.
    pub(crate) fn versions(&self, outer: Versions) -> Versions {
        self.explicit.map_or(outer, |explicit| explicit.within(outer))
    }

    /// Whether a byte in front of it says if it is there.
    pub(crate) fn is_nullable_struct(&self) -> bool {
        self.nullable_since.is_some() && !self.array && matches!(self.base, Base::Struct(_))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    /// Every version in which some field holds this struct.
    pub(crate) versions: Versions,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) versions: Versions,
    pub(crate) flexible_since: Option<i16>,
    /// The first is the message itself.
    pub(crate) structs: Vec<Struct>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Api {
    pub(crate) name: String,
    pub(crate) key: i16,
    pub(crate) versions: Versions,
    pub(crate) flexible_since: Option<i16>,
}

/// One file of tables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schema {
    pub(crate) stem: String,
    pub(crate) apis: Vec<Api>,
    pub(crate) messages: Vec<Message>,
}

/// All files of `schema/`, by name.
///
/// Panics: on a table that does not follow the grammar, with its file and line.
pub(crate) fn load() -> Vec<Schema> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the crate has a folder of tables")
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "schema"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let stem = path.file_stem().expect("a file").to_str().expect("an ASCII name").to_owned();
            let text = fs::read_to_string(path).expect("the table is readable");
            parse(&stem, &text).unwrap_or_else(|error| panic!("{stem}.schema:{error}"))
        })
        .collect()
}

/// A line of a table that does not follow the grammar.
#[derive(Debug)]
pub(crate) struct SchemaError {
    line: usize,
    what: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// A significant line: its number, its depth (two spaces each) and its words.
struct Line<'a> {
    number: usize,
    depth: usize,
    words: Vec<&'a str>,
}

impl Line<'_> {
    fn error(&self, what: impl Into<String>) -> SchemaError {
        SchemaError { line: self.number, what: what.into() }
    }
}

pub(crate) fn parse(stem: &str, text: &str) -> Result<Schema, SchemaError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        let spaces = line.len() - line.trim_start().len();
        let line = Line { number: index + 1, depth: spaces / 2, words };
        if spaces % 2 != 0 {
            return Err(line.error("a depth is two spaces"));
        }
        lines.push(line);
    }
    let mut schema = Schema { stem: stem.to_owned(), apis: Vec::new(), messages: Vec::new() };
    let mut rest = lines.as_slice();
    while let Some((head, tail)) = rest.split_first() {
        rest = tail;
        let bad_head = || {
            head.error(
                "expected `api NAME key N versions A-B flexible N+` or `data NAME versions A-B flexible N+`",
            )
        };
        let (name, key, versions, flexible) = match head.words[..] {
            ["api", name, "key", key, "versions", versions, "flexible", flexible] => {
                (name, Some(key.parse().map_err(|_| bad_head())?), versions, flexible)
            }
            ["data", name, "versions", versions, "flexible", flexible] => (name, None, versions, flexible),
            _ => return Err(bad_head()),
        };
        let versions = Versions::parse(versions).ok_or_else(bad_head)?;
        let flexible_since = match flexible {
            "none" => None,
            text => Some(Versions::parse(text).ok_or_else(bad_head)?.first),
        };
        let parts: &[(&str, &str)] = match key {
            Some(key) => {
                schema.apis.push(Api { name: name.to_owned(), key, versions, flexible_since });
                &[("request", "Request"), ("response", "Response")]
            }
            None => &[("fields", "")],
        };
        for (word, suffix) in parts {
            match rest.split_first() {
                Some((line, tail)) if line.words == [*word] && line.depth == 0 => rest = tail,
                _ => return Err(head.error(format!("expected a line `{word}` after it"))),
            }
            let mut message =
                Message { name: format!("{name}{suffix}"), versions, flexible_since, structs: Vec::new() };
            message.structs.push(Struct { name: message.name.clone(), versions, fields: Vec::new() });
            rest = fields(&mut message, 0, versions, 1, rest)?;
            spread_versions(&mut message);
            schema.messages.push(message);
        }
    }
    Ok(schema)
}

/// Gives each struct all the versions in which some field holds it: one that is named again, and all within it, may be in
/// more versions than where it was described.
fn spread_versions(message: &mut Message) {
    loop {
        let mut structs = message.structs.clone();
        for owner in &message.structs {
            for field in &owner.fields {
                if let Base::Struct(index) = field.base {
                    structs[index].versions = structs[index].versions.hull(field.versions(owner.versions));
                }
            }
        }
        if structs == message.structs {
            return;
        }
        message.structs = structs;
    }
}

/// Reads the fields of one struct, which are the lines at `depth`, and returns the lines after them.
fn fields<'l, 't>(
    message: &mut Message,
    owner: usize,
    versions: Versions,
    depth: usize,
    mut rest: &'l [Line<'t>],
) -> Result<&'l [Line<'t>], SchemaError> {
    while let Some((line, tail)) = rest.split_first() {
        if line.depth < depth {
            break;
        }
        if line.depth > depth {
            return Err(line.error("deeper than the field above it allows"));
        }
        rest = tail;
        let (mut field, struct_name) = field(line)?;
        let field_versions = field.versions(versions);
        if field_versions.first > field_versions.last {
            return Err(line.error("no version of its struct carries this field"));
        }
        if let Some(name) = struct_name {
            let name = format!("{}{name}", message.name);
            let known = message.structs.iter().position(|candidate| candidate.name == name);
            let has_fields = rest.first().is_some_and(|next| next.depth > depth);
            let index = match (known, has_fields) {
                (Some(_), true) => return Err(line.error(format!("`{name}` was described above already"))),
                (None, false) => return Err(line.error(format!("`{name}` is not described above, nor here"))),
                (Some(index), false) => index,
                (None, true) => {
                    message.structs.push(Struct { name, versions: field_versions, fields: Vec::new() });
                    let index = message.structs.len() - 1;
                    rest = fields(message, index, field_versions, depth + 1, rest)?;
                    index
                }
            };
            field.base = Base::Struct(index);
        }
        message.structs[owner].fields.push(field);
    }
    Ok(rest)
}

/// `name type [versions] [tag N] [= default] [ignorable]`; the struct's short name if the type is one.
fn field<'t>(line: &Line<'t>) -> Result<(Field, Option<&'t str>), SchemaError> {
    let [name, kind, rest @ ..] = &line.words[..] else {
        return Err(line.error("expected `name type [versions] [tag N] [= default] [ignorable]`"));
    };
    let (kind, nullable_since) = match kind.split_once('?') {
        None => (*kind, None),
        Some((kind, "")) => (kind, Some(0)),
        Some((kind, since)) => {
            let since = since.strip_suffix('+').and_then(|since| since.parse().ok());
            (kind, Some(since.ok_or_else(|| line.error("expected `?` or `?N+` after the type"))?))
        }
    };
    let (kind, array) = match kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let (base, struct_name) = match kind {
        "bool" => (Base::Bool, None),
        "i8" => (Base::I8, None),
        "i16" => (Base::I16, None),
        "i32" => (Base::I32, None),
        "i64" => (Base::I64, None),
        "string" => (Base::String, None),
        "bytes" => (Base::Bytes, None),
        "uuid" => (Base::Uuid, None),
        "error" => (Base::Error, None),
        name if name.starts_with(|first: char| first.is_ascii_uppercase()) => (Base::Struct(0), Some(name)),
        other => return Err(line.error(format!("unknown type `{other}`"))),
    };
    let mut field = Field {
        name: (*name).to_owned(),
        base,
        array,
        nullable_since,
        explicit: None,
        tag: None,
        default: None,
        ignorable: false,
    };
    let may_be_null = array || matches!(base, Base::String | Base::Bytes | Base::Struct(_));
    if nullable_since.is_some() && !may_be_null {
        return Err(line.error("only strings, bytes, arrays and structs can be null"));
    }
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match *word {
            "ignorable" => field.ignorable = true,
            "tag" => {
                let tag = words.next().and_then(|tag| tag.parse().ok());
                field.tag = Some(tag.ok_or_else(|| line.error("expected a number after `tag`"))?);
            }
            "=" => {
                let value = words.next().ok_or_else(|| line.error("expected a value after `=`"))?;
                field.default = Some((*value).to_owned());
            }
            text => {
                let versions = Versions::parse(text);
                field.explicit = Some(versions.ok_or_else(|| line.error(format!("unknown word `{text}`")))?);
            }
        }
    }
    let is_partial = field.explicit.is_some() || field.tag.is_some() || nullable_since != Some(0);
    if field.is_nullable_struct() && is_partial {
        return Err(line.error("a struct that may be null may be so whenever its struct is there, untagged"));
    }
    Ok((field, struct_name))
}
