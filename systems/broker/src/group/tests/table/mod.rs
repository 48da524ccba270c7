//! What happens to groups, as transcripts.

mod assigning;
mod coordinator;
mod joining;
mod leaving;
mod offsets;
mod static_members;

use super::check;

/// One member, stable in generation 1, as most transcripts begin.
const ONE_MEMBER: &str = "
    > a join
    a: join MEMBER_ID_REQUIRED a#1
    > a join
    > +200
    a: joined gen=1 range leader=a#1 members=a#1
    > a sync a=0,1
    a: assigned 0,1
";

/// Two members, stable in generation 1.
const TWO_MEMBERS: &str = "
    > a join v=3
    > b join v=3
    > +400
    a: joined gen=1 range leader=a#1 members=a#1,b#2
    b: joined gen=1 range leader=a#1 as b#2
    > b sync
    > a sync a=0 b=1
    a: assigned 0
    b: assigned 1
";

fn after(beginning: &str, transcript: &str) {
    check(&format!("{beginning}\n{transcript}"));
}
