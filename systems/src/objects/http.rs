//! As much of HTTP/1.1 as an object store's clients speak: requests with a known length, one after the other.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

/// A line of a request, and how many of them: keys are at most 1024 bytes long.
const MAX_LINE_BYTES: u64 = 16 << 10;
const MAX_HEADERS: usize = 100;
/// An object is a batch of records, or what a system knows of itself.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// A request.
pub(super) struct Request {
    pub(super) method: String,
    /// Without its percents.
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    /// By their names in lower case.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
    /// Of HTTP/1.0, whose connections end with an answer.
    is_old: bool,
}

impl Request {
    /// The next request; `None` where the connection ends. The inner error is what is wrong with it.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Result<Request, &'static str>>> {
        let Some(first) = line(from)? else { return Ok(None) };
        let mut words = first.split(' ');
        let (Some(method), Some(target), Some(version @ ("HTTP/1.1" | "HTTP/1.0")), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Ok(Some(Err("no request of HTTP/1.1")));
        };
        let mut headers = BTreeMap::new();
        loop {
            let Some(line) = line(from)? else { return Ok(None) };
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                return Ok(Some(Err("a header without a colon")));
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            if headers.len() > MAX_HEADERS {
                return Ok(Some(Err("too many headers")));
            }
        }
        if headers.contains_key("transfer-encoding") {
            return Ok(Some(Err("a body without a Content-Length")));
        }
        let length = headers.get("content-length").map_or(Ok(0), |length| length.parse::<u64>());
        let Some(length) = length.ok().filter(|length| *length <= MAX_BODY_BYTES) else {
            return Ok(Some(Err("no Content-Length that is taken")));
        };
        let mut body = Vec::new();
        from.take(length).read_to_end(&mut body)?;
        if body.len() as u64 != length {
            return Ok(None);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        let (method, path, query) = (method.to_owned(), decoded(path), query.collect());
        Ok(Some(Ok(Request { method, path, query, headers, body, is_old: version == "HTTP/1.0" })))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn keeps_alive(&self) -> bool {
        !self.is_old && self.header("connection").is_none_or(|word| !word.eq_ignore_ascii_case("close"))
    }
}

/// A line without its end; `None` where the connection ends, also within a line.
fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    from.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    let Some(line) = bytes.strip_suffix(b"\n") else { return Ok(None) };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}

/// Without its percents. What follows one and is no number stays as it is.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let number = after.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match number.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn empty(status: u16) -> Response {
        Response { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn text(status: u16, text: impl Into<String>) -> Response {
        Response { body: text.into().into_bytes(), ..Response::empty(status) }
    }

    /// As it is sent. One to HEAD tells a length and has no body.
    pub(super) fn bytes(&self, go_on: bool, is_head: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // Neither has a body, whatever its length would be.
        if !matches!(self.status, 204 | 304) {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str(if go_on { "\r\n" } else { "Connection: close\r\n\r\n" });
        let mut bytes = head.into_bytes();
        if !is_head && !matches!(self.status, 204 | 304) {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        412 => "Precondition Failed",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let check = |text: &str, expect: Option<Result<&str, &str>>| {
            let read = Request::read(&mut text.as_bytes()).expect("bytes in memory");
            let told = read.map(|read| {
                read.map(|r| {
                    let query: Vec<String> =
                        r.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    let body = String::from_utf8_lossy(&r.body).into_owned();
                    format!("{} {} [{}] {body}", r.method, r.path, query.join(" "))
                })
            });
            assert_eq!(told.as_ref().map(|told| told.as_deref().map_err(|why| *why)), expect, "{text}");
        };
        check("", None);
        check("GET /a HTTP/1.1\r\n", None);
        check("GET /a%20b/c HTTP/1.1\r\n\r\n", Some(Ok("GET /a b/c [] ")));
        check(
            "GET /b?list-type=2&prefix=x%2Fy&delete HTTP/1.1\r\nHost: h\r\n\r\n",
            Some(Ok("GET /b [delete= list-type=2 prefix=x/y] ")),
        );
        check("PUT /k HTTP/1.1\r\nCONTENT-LENGTH: 3\r\n\r\nabcd", Some(Ok("PUT /k [] abc")));
        check("PUT /k HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", None);
        check("PUT /k HTTP/1.1\r\nContent-Length: -5\r\n\r\n", Some(Err("no Content-Length that is taken")));
        check(
            "PUT /k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            Some(Err("a body without a Content-Length")),
        );
        check("PUT /k HTTP/1.1\r\nnonsense\r\n\r\n", Some(Err("a header without a colon")));
        check("nonsense\r\n\r\n", Some(Err("no request of HTTP/1.1")));
    }

    #[test]
    fn percents() {
        let check = |text: &str, expect: &str| assert_eq!(decoded(text), expect, "{text}");
        check("", "");
        check("a%2fb%2F%", "a/b/%");
        check("100%zz%4", "100%zz%4");
        check("%C3%A9", "é");
    }

    #[test]
    fn answers() {
        let found = Response { headers: vec![("ETag", "\"1\"".to_owned())], ..Response::text(200, "hi") };
        let check = |response: &Response, go_on, is_head, expect: &str| {
            assert_eq!(String::from_utf8_lossy(&response.bytes(go_on, is_head)), expect);
        };
        check(&found, true, false, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 2\r\n\r\nhi");
        check(&found, true, true, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 2\r\n\r\n");
        check(&Response::empty(204), false, false, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
}
