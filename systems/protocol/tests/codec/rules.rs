//! What the reader and the generator take for granted about the tables.

use std::collections::BTreeSet;

use riprap_protocol::{ApiKey, FIRST_PRIVATE_API_KEY};

use crate::bodies::{contains, every_message};
use crate::schema;

/// The reader refuses an array of more elements than there are bytes left. A message itself is never an element.
#[test]
fn every_element_takes_at_least_one_byte() {
    for message in every_message() {
        for item in message.structs.iter().skip(1) {
            for version in item.versions.first..=item.versions.last {
                let is_flexible = message.flexible_since.is_some_and(|since| version >= since);
                let has_field = item
                    .fields
                    .iter()
                    .any(|field| field.tag.is_none() && contains(field.versions(item.versions), version));
                assert!(is_flexible || has_field, "{} is empty in version {version}", item.name);
            }
        }
    }
}

/// The writer appends tags in the order of the table.
#[test]
fn tags_rise_and_are_flexible() {
    for message in every_message() {
        for item in &message.structs {
            let tagged: Vec<_> = item.fields.iter().filter(|field| field.tag.is_some()).collect();
            assert!(tagged.is_sorted_by(|a, b| a.tag < b.tag), "tags of {}", item.name);
            for field in tagged {
                let first = field.versions(item.versions).first;
                let since = message.flexible_since.expect("a message with tags is flexible");
                assert!(first >= since, "{}.{} is tagged before version {since}", item.name, field.name);
            }
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for item in every_message().into_iter().flat_map(|message| message.structs) {
        assert!(names.insert(item.name.clone()), "two structs are called {}", item.name);
        let mut fields = BTreeSet::new();
        for field in item.fields {
            assert!(fields.insert(field.name.clone()), "{} has two fields {}", item.name, field.name);
        }
    }
}

#[test]
fn the_table_of_apis_is_the_schemas() {
    let apis: Vec<_> = schema::load().into_iter().flat_map(|schema| schema.apis).collect();
    assert_eq!(ApiKey::all().count(), apis.len());
    assert!(ApiKey::all().is_sorted_by(|a, b| a < b), "look-ups by number need the order");
    for api in apis {
        let key = ApiKey::from_code(api.key).expect("the number is in the table");
        assert_eq!(key.name(), api.name);
        assert_eq!(key.versions(), api.versions.first..=api.versions.last);
        assert_eq!(key.is_private(), api.key >= FIRST_PRIVATE_API_KEY);
        for version in key.versions() {
            let is_flexible = api.flexible_since.is_some_and(|since| version >= since);
            assert_eq!(key.request_header_version(version), if is_flexible { 2 } else { 1 });
            let response = if is_flexible && api.name != "ApiVersions" { 1 } else { 0 };
            assert_eq!(key.response_header_version(version), response);
        }
    }
    assert_eq!(ApiKey::from_code(-1), None);
    assert_eq!(ApiKey::from_code(9_999), None);
}

#[test]
fn tables_that_do_not_follow_the_grammar() {
    let check = |text: &str, expect: &str| {
        let found = schema::parse("table", text).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, Err(expect.to_owned()), "{text}");
    };
    let head = "# A comment.\ndata D versions 1-3 flexible 2+\nfields\n";
    let check_field = |line: &str, expect: &str| check(&format!("{head}{line}"), &format!("4: {expect}"));
    check(
        "api",
        "1: expected `api NAME key N versions A-B flexible N+` or `data NAME versions A-B flexible N+`",
    );
    check("api A key 1 versions 0-1 flexible none\nresponse", "1: expected a line `request` after it");
    check_field(" a i32", "a depth is two spaces");
    check_field("  a", "expected `name type [versions] [tag N] [= default] [ignorable]`");
    check_field("  a int", "unknown type `int`");
    check_field("  a i32?", "only strings, bytes, arrays and structs can be null");
    let partial = "a struct that may be null may be so whenever its struct is there, untagged";
    check_field("  a Item? 2+", partial);
    check_field("  a Item? tag 0", partial);
    check_field("  a Item?2+", partial);
    check_field("  a string?2", "expected `?` or `?N+` after the type");
    check_field("  a i32 tag x", "expected a number after `tag`");
    check_field("  a i32 =", "expected a value after `=`");
    check_field("  a i32 sometimes", "unknown word `sometimes`");
    check_field("  a i32 4+", "no version of its struct carries this field");
    check_field("  a [Item]", "`DItem` is not described above, nor here");
    check_field("    a i32", "deeper than the field above it allows");
    let twice = "  a [Item]\n    b i32\n  c [Item]\n    b i32";
    check(&format!("{head}{twice}"), "6: `DItem` was described above already");
}
