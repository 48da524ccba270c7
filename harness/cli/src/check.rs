//! `riprap check`: judges a stored history.

use crate::args::{CheckArgs, GuaranteesArg, SubViaArg};
use crate::{Failure, print, say};
use riprap_checker::{Examples, Options, Verdict, Via, check, read_history};
use riprap_core::client::{Isolation, SubscribeVia};
use riprap_core::fault::FaultInfo;
use riprap_core::phase;
use riprap_results::{Faults, Paint, json_text, summary};

pub(crate) fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let workload = crate::test::workload(&args.workload)?;
    if args.rw && args.guarantees == GuaranteesArg::Jepsen {
        return Err(Failure::usage(
            "--rw and --guarantees jepsen exclude each other: Jepsen has no such edges",
        ));
    }
    let loaded = read_history(&args.history).map_err(Failure::usage)?;
    if let Some(dropped) = &loaded.dropped {
        say(&format!("{}: {dropped}", args.history.display()));
    }
    let own = phase::was_drained(&loaded.history);
    // Other tools' histories do not mark their phases; they are taken to be whole, unless their last line is cut.
    let drained = own.unwrap_or(loaded.dropped.is_none());
    let subscribes = match args.sub_via {
        Some(via) => via == SubViaArg::Subscribe,
        None => workload.info().sub_via.contains(&SubscribeVia::Subscribe),
    };
    let options = Options {
        isolation: Isolation::from(args.isolation).into(),
        via: if subscribes { Via::Subscribe } else { Via::Assign },
        guarantees: args.guarantees.into(),
        acks_all: args.acks == "all",
        idempotent: args.idempotence,
        ww: !args.no_ww,
        rw: args.rw,
        drained,
        examples: if args.all { Examples::All } else { Examples::Few },
        ..Options::default()
    };
    let mut verdict = check(&loaded.history, &options).merge(workload.judge(&loaded.history, &options));
    if own.is_some() {
        // Only riprap's own histories tell what their faults came to.
        let infos: Vec<&FaultInfo> = riprap_nemesis::ALL.iter().map(|fault| fault.info()).collect();
        let faults = Faults::of(&loaded.history, &infos);
        verdict = verdict.merge(faults.verdict()).with_part("faults", &faults);
    }
    if !drained {
        verdict = verdict.merge(not_drained());
    }
    if phase::marks(&loaded.history).any(|(_, name)| name == phase::UNRECOVERED) {
        verdict = verdict.merge(Verdict::unknown("recovery", "the cluster did not serve again in time"));
    }
    if let Some(why) = phase::cut_short(&loaded.history) {
        verdict = verdict.merge(Verdict::unknown("interrupted", why));
    }
    if args.json {
        print(&json_text(&verdict))?;
    } else {
        print(&summary(&verdict, None, None, Paint::stdout()))?;
    }
    Ok(verdict.valid.exit_code())
}

/// What a history without its final reads cannot show.
fn not_drained() -> Verdict {
    Verdict::unknown(
        "drain",
        "the history ends before the final reads did: what nobody had read yet may be there or lost",
    )
}
