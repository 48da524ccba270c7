//! Requests of S3's protocol. Source: Amazon S3's API reference; what clients of it read is what the crate object_store reads.

use super::http::{Request, Response};
use super::store::{Condition, MAX_KEY_BYTES, Object, Refusal, Store};
use std::collections::BTreeSet;

/// Objects in one answer to a list. Source: ListObjectsV2.
const MAX_LISTED: usize = 1000;

/// Answers a request.
pub(super) fn answer(store: &Store, request: &Request) -> Response {
    let path = request.path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    match (request.method.as_str(), bucket, key) {
        ("GET", "healthz", "") => Response::text(200, "{\"status\":\"ok\"}"),
        (_, "", _) => error(501, "NotImplemented", "buckets are not listed"),
        ("GET", _, "") => list(store, bucket, request),
        // A bucket is there when it is used.
        ("HEAD" | "PUT", _, "") => Response::empty(200),
        ("POST", _, "") if request.query.contains_key("delete") => delete_several(store, bucket, request),
        _ if path.len() > MAX_KEY_BYTES => error(400, "KeyTooLongError", "the key is too long"),
        ("GET" | "HEAD", _, _) if request.header("range").is_some() => {
            error(501, "NotImplemented", "objects are got whole")
        }
        ("GET" | "HEAD", _, _) => get(store, path, request),
        ("PUT", _, _) if request.header("x-amz-copy-source").is_some() => {
            error(501, "NotImplemented", "objects are not copied")
        }
        ("PUT", _, _) if request.query.is_empty() => put(store, path, request),
        ("DELETE", _, _) if request.query.is_empty() => match store.delete(path) {
            Ok(()) => Response::empty(204),
            Err(why) => error(500, "InternalError", &why),
        },
        _ => error(501, "NotImplemented", "this is not done here"),
    }
}

fn error(status: u16, code: &str, message: &str) -> Response {
    let message = escaped(message);
    xml(status, &format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>"))
}

fn xml(status: u16, body: &str) -> Response {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}");
    let headers = vec![("Content-Type", "application/xml".to_owned())];
    Response { headers, ..Response::text(status, body) }
}

fn quoted(tag: u128) -> String {
    format!("\"{tag:032x}\"")
}

/// The tag that a header's value means, if it is one of ours.
fn tag(quoted: &str) -> Option<u128> {
    u128::from_str_radix(quoted.trim().trim_matches('"'), 16).ok()
}

fn get(store: &Store, path: &str, request: &Request) -> Response {
    let Some(Object { body, tag: its, modified_ms, .. }) = store.get(path) else {
        return error(404, "NoSuchKey", "there is no such object");
    };
    let is_known = |header: &str| request.header(header).map(|value| tag(value) == Some(its));
    let headers = vec![("ETag", quoted(its)), ("Last-Modified", time::for_http(modified_ms))];
    if is_known("if-match") == Some(false) {
        return error(412, "PreconditionFailed", "it is another");
    }
    let status = if is_known("if-none-match") == Some(true) { 304 } else { 200 };
    Response { status, headers, body: body.to_vec() }
}

fn put(store: &Store, path: &str, request: &Request) -> Response {
    let condition = match (request.header("if-match"), request.header("if-none-match")) {
        (None, None) => Condition::Always,
        (None, Some("*")) => Condition::Absent,
        // One that is none of ours is no object's.
        (Some(value), None) => match tag(value) {
            Some(tag) => Condition::Is(tag),
            None => return error(412, "PreconditionFailed", "it is another"),
        },
        _ => {
            return error(
                501,
                "NotImplemented",
                "If-None-Match: * and If-Match: TAG are done, one at a time",
            );
        }
    };
    match store.put(path, &request.body, condition) {
        Ok(tag) => Response { headers: vec![("ETag", quoted(tag))], ..Response::empty(200) },
        Err(Refusal::Condition) => error(412, "PreconditionFailed", "it is there, or another is"),
        Err(Refusal::Failed(why)) => error(500, "InternalError", &why),
    }
}

fn list(store: &Store, bucket: &str, request: &Request) -> Response {
    let asked = |name: &str| request.query.get(name).map(String::as_str).unwrap_or_default();
    let (prefix, delimiter) = (asked("prefix"), asked("delimiter"));
    let within = |key: &str| format!("{bucket}/{key}");
    let after = asked("start-after").max(asked("continuation-token"));
    let after = if after.is_empty() { String::new() } else { within(after) };
    let most = asked("max-keys").parse().unwrap_or(MAX_LISTED).min(MAX_LISTED);
    let (mut contents, mut common, mut last, mut is_cut) = (String::new(), BTreeSet::new(), None, false);
    let mut count = 0;
    for (key, object) in store.list(&within(prefix), &after) {
        let key = &key[bucket.len() + 1..];
        if count == most {
            is_cut = true;
            break;
        }
        last = Some(key.to_owned());
        let below = key[prefix.len()..].find(delimiter).filter(|_| !delimiter.is_empty());
        if let Some(at) = below {
            count += usize::from(common.insert(key[..prefix.len() + at + delimiter.len()].to_owned()));
            continue;
        }
        count += 1;
        contents.push_str(&format!(
            "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
            escaped(key),
            time::for_xml(object.modified_ms),
            escaped(&quoted(object.tag)),
            object.body.len(),
        ));
    }
    let next = last.filter(|_| is_cut);
    let next = next.map(|key| format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(&key)));
    let common: String = common
        .iter()
        .map(|prefix| format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(prefix)))
        .collect();
    xml(
        200,
        &format!(
            "<ListBucketResult><Name>{}</Name><Prefix>{}</Prefix><KeyCount>{count}</KeyCount><MaxKeys>{most}</MaxKeys>\
             <IsTruncated>{is_cut}</IsTruncated>{}{contents}{common}</ListBucketResult>",
            escaped(bucket),
            escaped(prefix),
            next.unwrap_or_default(),
        ),
    )
}

/// `<Delete><Object><Key>...</Key></Object>...</Delete>`.
fn delete_several(store: &Store, bucket: &str, request: &Request) -> Response {
    let text = String::from_utf8_lossy(&request.body);
    let mut done = String::new();
    for part in text.split("<Key>").skip(1) {
        let Some((key, _)) = part.split_once("</Key>") else {
            return error(400, "MalformedXML", "a key does not end");
        };
        let key = unescaped(key);
        let told = match store.delete(&format!("{bucket}/{key}")) {
            Ok(()) => format!("<Deleted><Key>{}</Key></Deleted>", escaped(&key)),
            Err(why) => format!(
                "<Error><Key>{}</Key><Code>InternalError</Code><Message>{}</Message></Error>",
                escaped(&key),
                escaped(&why)
            ),
        };
        done.push_str(&told);
    }
    xml(200, &format!("<DeleteResult>{done}</DeleteResult>"))
}

/// What stands for what, the ampersand first.
const ENTITIES: &[(&str, &str)] =
    &[("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&apos;")];

fn escaped(text: &str) -> String {
    ENTITIES.iter().fold(text.to_owned(), |text, (plain, entity)| text.replace(plain, entity))
}

fn unescaped(text: &str) -> String {
    ENTITIES.iter().rev().fold(text.to_owned(), |text, (plain, entity)| text.replace(entity, plain))
}

/// Times of day, of a clock that counts milliseconds since 1970.
mod time {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

    /// Year, month from 1, day from 1 of a day since 1970. Source: Howard Hinnant, "chrono-Compatible Low-Level Date
    /// Algorithms", civil_from_days.
    fn date(day: u64) -> (u64, u64, u64) {
        let shifted = day + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        (year + era * 400 + u64::from(month <= 2), month, day)
    }

    fn parts(ms: u64) -> (u64, (u64, u64, u64), String) {
        let (day, of_day) = (ms / 86_400_000, ms % 86_400_000 / 1000);
        let clock = format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
        (day, date(day), clock)
    }

    pub(super) fn for_xml(ms: u64) -> String {
        let (_, (year, month, day), clock) = parts(ms);
        format!("{year:04}-{month:02}-{day:02}T{clock}.{:03}Z", ms % 1000)
    }

    pub(super) fn for_http(ms: u64) -> String {
        let (days, (year, month, day), clock) = parts(ms);
        let (week_day, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize - 1]);
        format!("{week_day}, {day:02} {month} {year:04} {clock} GMT")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn dates() {
            let check = |ms: u64, xml: &str, http: &str| {
                assert_eq!((for_xml(ms).as_str(), for_http(ms).as_str()), (xml, http));
            };
            check(0, "1970-01-01T00:00:00.000Z", "Thu, 01 Jan 1970 00:00:00 GMT");
            check(951_782_400_007, "2000-02-29T00:00:00.007Z", "Tue, 29 Feb 2000 00:00:00 GMT");
            check(951_868_799_999, "2000-02-29T23:59:59.999Z", "Tue, 29 Feb 2000 23:59:59 GMT");
            check(1_796_054_400_000, "2026-11-30T16:00:00.000Z", "Mon, 30 Nov 2026 16:00:00 GMT");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line asks: `METHOD TARGET [HEADER: VALUE] [= BODY]`.
    fn ask(store: &Store, line: &str) -> (u16, String) {
        let (head, body) = line.split_once(" = ").unwrap_or((line, ""));
        let (first, header) = head.split_once(" [").unwrap_or((head, ""));
        let header = header.trim_end_matches(']');
        let end = if header.is_empty() { "" } else { "\r\n" };
        let length = body.len();
        let text = format!("{first} HTTP/1.1\r\n{header}{end}Content-Length: {length}\r\n\r\n{body}");
        let request = Request::read(&mut text.as_bytes()).expect("in memory").expect("whole").expect("right");
        let response = answer(store, &request);
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    }

    #[test]
    fn a_conversation() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::open(dir.path()).expect("it opens");
        let tag_of = |path: &str| quoted(store.get(path).expect("it is there").tag);
        for (line, status, part) in [
            ("GET /healthz", 200, "ok"),
            ("PUT /b/a/1 = one", 200, ""),
            ("GET /b/a/1", 200, "one"),
            ("HEAD /b/a/1", 200, "one"),
            ("PUT /b/a/1 [If-None-Match: *] = two", 412, "PreconditionFailed"),
            ("PUT /b/a/1 [If-Match: \"beef\"] = two", 412, "PreconditionFailed"),
            ("PUT /b/a/1 [If-Match: no tag] = two", 412, "PreconditionFailed"),
            ("PUT /b/a/2 [If-None-Match: *] = <&>", 200, ""),
            ("GET /b/a/3", 404, "NoSuchKey"),
            ("GET /b/a/1 [Range: bytes=0-1]", 501, "NotImplemented"),
            ("PUT /b/a/3 [x-amz-copy-source: /b/a/1]", 501, "NotImplemented"),
            ("POST /b/a/3?uploads", 501, "NotImplemented"),
            ("GET /b?list-type=2&prefix=a/", 200, "<Key>a/1</Key>"),
            (
                "GET /b?list-type=2&prefix=a/&max-keys=1",
                200,
                "<NextContinuationToken>a/1</NextContinuationToken>",
            ),
            ("GET /b?list-type=2&prefix=a/&continuation-token=a/1", 200, "<KeyCount>1</KeyCount>"),
            (
                "GET /b?list-type=2&prefix=&delimiter=/",
                200,
                "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>",
            ),
            ("GET /other?list-type=2", 200, "<KeyCount>0</KeyCount>"),
            ("DELETE /b/a/1", 204, ""),
            ("DELETE /b/a/1", 204, ""),
            (
                "POST /b?delete = <Delete><Object><Key>a/2</Key></Object></Delete>",
                200,
                "<Deleted><Key>a/2</Key>",
            ),
            ("GET /b?list-type=2", 200, "<KeyCount>0</KeyCount>"),
            ("GET /", 501, "NotImplemented"),
        ] {
            let (found, body) = ask(&store, line);
            assert!(found == status && body.contains(part), "{line}: {found} {body}");
        }
        let _ = ask(&store, "PUT /b/k = one");
        let tag = tag_of("b/k");
        for (line, status) in [
            (format!("GET /b/k [If-None-Match: {tag}]"), 304),
            (format!("PUT /b/k [If-Match: {tag}] = two"), 200),
            (format!("GET /b/k [If-None-Match: {tag}]"), 200),
            (format!("GET /b/k [If-Match: {tag}]"), 412),
        ] {
            assert_eq!(ask(&store, &line).0, status, "{line}");
        }
    }

    #[test]
    fn entities() {
        let text = "a&b<c>\"'&amp;";
        assert_eq!(escaped("<&>"), "&lt;&amp;&gt;");
        assert_eq!(unescaped(&escaped(text)), text);
    }
}
