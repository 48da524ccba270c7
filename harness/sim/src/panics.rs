//! A node that panics is a finding about the node, not the end of the harness.

use riprap_core::panic_text;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Where the panic under way was, and how it got there; `None` while no node is being stepped on this thread.
    static CAUGHT: RefCell<Option<[String; 2]>> = const { RefCell::new(None) };
}

/// What a node that panicked left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Panicked {
    pub(crate) message: String,
    /// File, line and column.
    pub(crate) place: String,
    pub(crate) backtrace: String,
}

/// Runs a step of a node. A panic within is not printed but returned.
pub(crate) fn catch<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    install();
    CAUGHT.with_borrow_mut(|caught| *caught = Some(Default::default()));
    let result = panic::catch_unwind(AssertUnwindSafe(step));
    let [place, backtrace] = CAUGHT.with_borrow_mut(Option::take).unwrap_or_default();
    result.map_err(|panic| Panicked { message: panic_text(&*panic).to_owned(), place, backtrace })
}

/// The hook belongs to the whole process; on threads that step no node the one before goes on.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_ours = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(caught) => {
                    let place = info.location().map(ToString::to_string).unwrap_or_default();
                    *caught = [place, Backtrace::force_capture().to_string()];
                    true
                }
                None => false,
            });
            if !is_ours {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_returned_with_its_place() {
        assert_eq!(catch(|| 7), Ok(7));
        let panicked = catch(|| panic!("as asked")).expect_err("it panics");
        assert_eq!(panicked.message, "as asked");
        assert!(panicked.place.starts_with(file!()), "{}", panicked.place);
        assert!(panicked.backtrace.contains("a_panic_is_returned"), "{}", panicked.backtrace);
    }
}
