//! Where consumers went on after aborts, if the workload has counted that.

use super::html::Html;
use super::thousands;
use riprap_checker::{Aborts, Positions, Verdict};

pub(super) fn aborts(page: &mut Html, verdict: &Verdict) {
    let Aborts { transactions, assigned, kept, rebalanced } = crate::part(verdict, "aborts");
    if transactions == 0 {
        return;
    }
    page.raw("<h2 id=\"aborts\">After aborts</h2>\n<p>")
        .text(thousands(transactions))
        .raw(" transactions had read something and were aborted. Where their consumers read on, for each key:</p>\n");
    page.raw(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">the key was<th scope=\"col\" class=\"n\">advance\
         <th scope=\"col\" class=\"n\">rewind<th scope=\"col\" class=\"n\">rewind further\
         <th scope=\"col\" class=\"n\">other</thead><tbody>\n",
    );
    let rows = [
        ("assigned by the consumer itself", assigned),
        ("kept since its group gave it", kept),
        ("rebalanced meanwhile", rebalanced),
    ];
    for (how, Positions { advance, rewind, rewind_further, other }) in rows {
        page.element("<tr><td>", how, "");
        for count in [advance, rewind, rewind_further, other] {
            page.element("<td class=\"n\">", thousands(count), "");
        }
        page.raw("\n");
    }
    page.raw(
        "</tbody></table></div>\n<p class=\"note\">An abort moves no consumer by itself: one that advances has skipped, for \
         whoever acts on committed transactions only, what the aborted one had read.</p>\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_counts_no_aborts_has_no_such_section() {
        let told = |verdict: &Verdict| {
            let mut page = Html::default();
            aborts(&mut page, verdict);
            page.into_string()
        };
        assert_eq!(told(&Verdict::default()), "");
        let kept = Positions { advance: 1203, rewind: 1, rewind_further: 2, other: 3 };
        let counted = Aborts { transactions: 1300, kept, ..Aborts::default() };
        let page = told(&Verdict::default().with_part("aborts", counted));
        let row = "<td>kept since its group gave it<td class=\"n\">1\u{202f}203<td class=\"n\">1<td class=\"n\">2<td class=\"n\">3\n";
        assert!(page.contains(row), "{page}");
    }
}
