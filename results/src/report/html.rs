//! HTML, of which only the program's own text can be markup: whatever comes from a run goes through [`Html::text`] or
//! [`Html::attribute`], and there is no other way in.

use crate::plots::Plot;
use std::fmt::{self, Display, Write};

/// A piece of a page.
#[derive(Default)]
pub(crate) struct Html {
    page: String,
}

impl Html {
    /// Markup. That it is `'static` keeps out what a system or a client said.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.page.push_str(markup);
        self
    }

    /// Text, escaped.
    pub(crate) fn text(&mut self, text: impl Display) -> &mut Html {
        write!(Escape(&mut self.page), "{text}").expect("writing into memory does not fail");
        self
    }

    /// An attribute, escaped, inside a tag that [`Html::raw`] left open: ` name="value"`.
    pub(crate) fn attribute(&mut self, name: &'static str, value: impl Display) -> &mut Html {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// An element with text and nothing else.
    pub(crate) fn element(
        &mut self,
        open: &'static str,
        text: impl Display,
        close: &'static str,
    ) -> &mut Html {
        self.raw(open).text(text).raw(close)
    }

    /// A picture of our own drawing, with its name for those who do not see it.
    pub(crate) fn picture(&mut self, plot: &Plot) -> &mut Html {
        let drawing = plot.svg.strip_prefix("<svg").expect("a plot is an SVG");
        self.raw("<svg role=\"img\"")
            .attribute("aria-label", format_args!("{}: {}", plot.title, plot.caption));
        self.page.push_str(drawing);
        self
    }

    /// A style sheet of our own.
    pub(crate) fn style(&mut self, css: &str) -> &mut Html {
        self.raw("<style>\n");
        self.page.push_str(css);
        self.raw("</style>\n")
    }

    /// Another piece.
    pub(crate) fn append(&mut self, other: Html) -> &mut Html {
        self.page.push_str(&other.page);
        self
    }

    pub(crate) fn into_string(self) -> String {
        self.page
    }
}

/// Escapes all that goes through, for text and for attributes in double quotes. Control characters, which HTML forbids
/// or which would hide text, are shown as `�`.
struct Escape<'a>(&'a mut String);

impl Write for Escape<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                // Overrides of the direction of writing can make a text look like another.
                '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{FFFD}'),
                c if c.is_control() => self.0.push('\u{FFFD}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let check = |text: &str, expected: &str| {
            let mut html = Html::default();
            html.text(text);
            assert_eq!(html.into_string(), expected);
        };
        check("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d");
        check("\"'", "&quot;&#39;");
        check("<script>", "&lt;script&gt;");
        check("\0\x1b[31m\u{202E}x\n", "\u{FFFD}\u{FFFD}[31m\u{FFFD}x\n");
        check("größer µs 鍵", "größer µs 鍵");
    }

    #[test]
    fn attributes_stay_inside_their_quotes() {
        let mut html = Html::default();
        html.raw("<a").attribute("href", "\" onclick=\"alert(1)").raw(">");
        assert_eq!(html.into_string(), "<a href=\"&quot; onclick=&quot;alert(1)\">");
    }
}
