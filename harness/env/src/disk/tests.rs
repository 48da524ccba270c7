//! What both disks do alike, and what only the one in memory can do: forget and fail.

use super::{Disk, DiskError, FileId, Keep, MemDisk, RealDisk, Unsynced, sync_dir_and_parents};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Open(&'static str),
    Write(&'static str, u64, Vec<u8>),
    Truncate(&'static str, u64),
    Sync(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    RemoveDirAll(&'static str),
    SyncDir(&'static str),
    Look(&'static str),
}

const PATHS: [&str; 6] = ["a", "b", "d/x", "d/y", "d/e/z", "f/x"];
const DIRS: [&str; 4] = ["", "d", "d/e", "f"];

fn step() -> impl Strategy<Value = Step> {
    let path = || prop::sample::select(&PATHS[..]);
    let dir = || prop::sample::select(&DIRS[..]);
    prop_oneof![
        path().prop_map(Step::Open),
        (path(), 0_u64..20, prop::collection::vec(any::<u8>(), 0..10))
            .prop_map(|(p, o, b)| Step::Write(p, o, b)),
        (path(), 0_u64..20).prop_map(|(p, n)| Step::Truncate(p, n)),
        path().prop_map(Step::Sync),
        (path(), path()).prop_map(|(a, b)| Step::Rename(a, b)),
        path().prop_map(Step::Remove),
        prop::sample::select(&DIRS[1..]).prop_map(Step::RemoveDirAll),
        dir().prop_map(Step::SyncDir),
        dir().prop_map(Step::Look),
    ]
}

/// Carries out a step and tells what could be seen of it, without the wording of errors.
fn run(
    disk: &mut dyn Disk,
    files: &mut BTreeMap<&'static str, FileId>,
    step: &Step,
) -> Result<String, &'static str> {
    fn seen<T: std::fmt::Debug>(result: Result<T, DiskError>) -> Result<String, &'static str> {
        match result {
            Ok(value) => Ok(format!("{value:?}")),
            Err(DiskError::NotFound(_)) => Err("not found"),
            Err(DiskError::Full(_)) => Err("full"),
            Err(DiskError::PastEnd { .. }) => Err("past end"),
            Err(DiskError::Io { .. }) => Err("io"),
        }
    }
    let mut file = |disk: &mut dyn Disk, path| match files.get(path) {
        Some(file) => Ok(*file),
        None => disk.open(path).inspect(|file| {
            files.insert(path, *file);
        }),
    };
    match step {
        Step::Open(path) => {
            if let Some(old) = files.remove(path) {
                disk.close(old);
            }
            let opened = disk.open(path);
            if let Ok(file) = opened {
                files.insert(path, file);
            }
            seen(opened.map(|_| ()))
        }
        Step::Write(path, offset, bytes) => {
            seen(file(disk, path).and_then(|f| disk.write_at(f, *offset, bytes)))
        }
        Step::Truncate(path, len) => seen(file(disk, path).and_then(|f| disk.truncate(f, *len))),
        Step::Sync(path) => seen(file(disk, path).and_then(|f| disk.sync(f))),
        Step::Rename(from, to) => seen(disk.rename(from, to)),
        Step::Remove(path) => seen(disk.remove(path)),
        Step::RemoveDirAll(path) => seen(disk.remove_dir_all(path)),
        Step::SyncDir(path) => seen(disk.sync_dir(path)),
        Step::Look(dir) => {
            let mut all = seen(disk.list(dir))?;
            for (path, file) in files.iter() {
                let len = disk.len(*file).expect("an open file has a length");
                let mut bytes = vec![0; usize::try_from(len).expect("a small file")];
                disk.read_at(*file, 0, &mut bytes).expect("a file can be read up to its length");
                let past = seen(disk.read_at(*file, 1, &mut bytes.clone()));
                all += &format!(" {path}={bytes:?} past={past:?} exists={}", disk.exists(path));
            }
            Ok(all)
        }
    }
}

proptest! {
    // Few: the folder is on a real disk, and its syncs are as slow as that disk.
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn memory_does_what_a_folder_does(steps in prop::collection::vec(step(), 1..60)) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut real = RealDisk::new(folder.path()).expect("the folder is there");
        let mut mem = MemDisk::new();
        let (mut real_files, mut mem_files) = (BTreeMap::new(), BTreeMap::new());
        for step in steps.iter().chain(&DIRS.map(Step::Look)) {
            let expect = run(&mut real, &mut real_files, step);
            prop_assert_eq!(run(&mut mem, &mut mem_files, step), expect, "{:?}", step);
        }
    }
}

proptest! {
    #[test]
    fn what_was_synced_survives_whatever_the_rest_does(
        before in prop::collection::vec(step(), 0..40),
        after in prop::collection::vec((0_u64..20, prop::collection::vec(any::<u8>(), 0..10)), 0..10),
        fates in prop::collection::vec(prop_oneof![
            Just(Keep::Lost), (0_usize..12).prop_map(Keep::Torn), Just(Keep::Zeros), Just(Keep::Whole)
        ], 1..8),
    ) {
        let mut disk = MemDisk::new();
        let mut files = BTreeMap::new();
        for step in &before {
            let _ = run(&mut disk, &mut files, step);
        }
        let file = disk.open("d/kept").expect("nothing is in the way");
        disk.write_at(file, 0, b"kept").expect("the disk has room");
        disk.sync(file).expect("nothing was injected");
        sync_dir_and_parents(&mut disk, "d").expect("the folder is there");
        for (offset, bytes) in &after {
            disk.write_at(file, 4 + offset, bytes).expect("the disk has room");
        }
        let mut fates = fates.iter().cycle();
        disk.power_fail(|_| *fates.next().expect("a cycle does not end"));
        let kept = disk.contents("d/kept").expect("the file's name was synced");
        prop_assert_eq!(&kept[..4], b"kept");
        let again = disk.clone().contents("d/kept").map(<[u8]>::to_vec);
        disk.power_fail(|_| Keep::Lost);
        prop_assert_eq!(disk.contents("d/kept"), again.as_deref());
    }
}

/// Does `work`, lets the power fail, and compares what is left of file `d/f`.
fn check(work: impl Fn(&mut MemDisk), keep: impl Fn(&Unsynced<'_>) -> Keep, expect: Option<&[u8]>) {
    let mut disk = MemDisk::new();
    work(&mut disk);
    disk.power_fail(keep);
    assert_eq!(disk.contents("d/f"), expect);
}

fn written(disk: &mut MemDisk, path: &str, bytes: &[u8]) -> FileId {
    let file = disk.open(path).expect("nothing is in the way");
    disk.write_at(file, 0, bytes).expect("the disk has room");
    file
}

fn synced(disk: &mut MemDisk, path: &str, bytes: &[u8]) -> FileId {
    let file = written(disk, path, bytes);
    disk.sync(file).expect("nothing was injected");
    sync_dir_and_parents(disk, super::parent_of(path)).expect("the folder is there");
    file
}

#[test]
fn a_power_failure_takes_what_it_may_and_no_more() {
    let lost = |_: &Unsynced<'_>| Keep::Lost;
    let whole = |_: &Unsynced<'_>| Keep::Whole;
    let append = |d: &mut MemDisk| {
        let f = synced(d, "d/f", b"abc");
        d.write_at(f, 3, b"def").unwrap();
    };
    check(append, lost, Some(b"abc"));
    check(append, |_| Keep::Torn(2), Some(b"abcde"));
    check(append, |_| Keep::Zeros, Some(b"abc\0\0\0"));
    check(append, whole, Some(b"abcdef"));

    let overwrite_and_cut = |d: &mut MemDisk| {
        let f = synced(d, "d/f", b"abcdef");
        d.write_at(f, 1, b"XY").unwrap();
        d.truncate(f, 2).unwrap();
    };
    check(overwrite_and_cut, lost, Some(b"abcdef"));
    check(overwrite_and_cut, whole, Some(b"aX"));
    let but_the_cut =
        |u: &Unsynced<'_>| if matches!(u, Unsynced::Truncate { .. }) { Keep::Lost } else { Keep::Whole };
    check(overwrite_and_cut, but_the_cut, Some(b"aXYdef"));

    // A later write survives, an earlier one does not: a hole of zeros.
    let two = |d: &mut MemDisk| {
        let f = synced(d, "d/f", b"");
        d.write_at(f, 0, b"ab").unwrap();
        d.write_at(f, 2, b"cd").unwrap();
    };
    let second = |u: &Unsynced<'_>| match u {
        Unsynced::Write { offset: 0, .. } => Keep::Lost,
        _ => Keep::Whole,
    };
    check(two, second, Some(b"\0\0cd"));

    // Names: the bytes alone do not save a file, nor does its own folder's sync where the folder is new.
    let bytes_only = |d: &mut MemDisk| {
        let f = written(d, "d/f", b"abc");
        d.sync(f).unwrap();
    };
    check(bytes_only, lost, None);
    let without_parents = |d: &mut MemDisk| {
        let f = written(d, "d/f", b"abc");
        d.sync(f).unwrap();
        d.sync_dir("d").unwrap();
    };
    check(without_parents, lost, None);
    let names_only = |d: &mut MemDisk| {
        written(d, "d/f", b"abc");
        sync_dir_and_parents(d, "d").unwrap();
    };
    check(names_only, lost, Some(b""));
    check(
        names_only,
        |u| if matches!(u, Unsynced::Write { .. }) { Keep::Torn(1) } else { Keep::Lost },
        Some(b"a"),
    );

    let removed = |d: &mut MemDisk| {
        synced(d, "d/f", b"abc");
        d.remove("d/f").unwrap();
    };
    check(removed, lost, Some(b"abc"));
    check(removed, whole, None);
    let renamed = |d: &mut MemDisk| {
        synced(d, "d/f", b"old");
        let g = written(d, "d/g", b"new");
        d.sync(g).unwrap();
        d.rename("d/g", "d/f").unwrap();
    };
    check(renamed, lost, Some(b"old"));
    check(renamed, whole, Some(b"new"));
    // The rename survives and with it the creation that it builds on.
    check(
        renamed,
        |u| if matches!(u, Unsynced::Name { path: "d/f" }) { Keep::Whole } else { Keep::Lost },
        Some(b"new"),
    );

    // A folder removed and made anew does not give back what was in it.
    let anew = |d: &mut MemDisk| {
        synced(d, "d/f", b"old");
        d.remove_dir_all("d").unwrap();
        synced(d, "d/g", b"new");
    };
    check(anew, lost, None);
    let anew_elsewhere = |d: &mut MemDisk| {
        synced(d, "d/f", b"old");
        d.remove_dir_all("d").unwrap();
        written(d, "d/g", b"new");
        d.sync_dir("").unwrap();
    };
    check(anew_elsewhere, lost, None);

    // A sync that failed saved nothing, and neither does a later one that claims to.
    let failed_sync = |d: &mut MemDisk| {
        let f = synced(d, "d/f", b"abc");
        d.write_at(f, 3, b"def").unwrap();
        d.fail_operation(d.operations());
        assert!(d.sync(f).is_err());
        d.sync(f).unwrap();
    };
    check(failed_sync, lost, Some(b"abc"));
}

#[test]
fn a_full_disk_writes_what_fits_and_says_so() {
    let mut disk = MemDisk::new();
    disk.set_capacity_bytes(Some(5));
    let a = written(&mut disk, "a", b"abc");
    let b = disk.open("b").unwrap();
    assert_eq!(disk.write_at(b, 0, b"defg"), Err(DiskError::Full("b".to_owned())));
    assert_eq!(disk.contents("b"), Some(&b"de"[..]));
    assert_eq!(disk.write_at(a, 0, b"xyz"), Ok(()), "what does not grow a file always fits");
    assert_eq!(disk.truncate(a, 4), Err(DiskError::Full("a".to_owned())));
    disk.remove("b").unwrap();
    disk.close(b);
    assert_eq!(disk.write_at(a, 3, b"yz"), Ok(()), "a removed file gives its room back");
    disk.set_capacity_bytes(None);
    assert_eq!(disk.write_at(a, 5, b"more"), Ok(()));
}

#[test]
fn an_injected_failure_hits_its_operation_alone() {
    let mut disk = MemDisk::new();
    let file = disk.open("f").unwrap();
    disk.fail_operation(2);
    assert_eq!(disk.write_at(file, 0, b"a"), Ok(()));
    assert!(matches!(disk.write_at(file, 0, b"b"), Err(DiskError::Io { .. })));
    assert_eq!(disk.contents("f"), Some(&b"a"[..]));
    assert_eq!(disk.write_at(file, 0, b"c"), Ok(()));
    assert_eq!(disk.operations(), 4);
}

#[test]
fn a_crash_of_the_process_loses_open_files_only() {
    let mut disk = MemDisk::new();
    let file = written(&mut disk, "f", b"abc");
    disk.flip_bits("f", 1, 0x20);
    disk.process_crash();
    assert!(disk.len(file).is_err());
    assert_eq!(disk.contents("f"), Some(&b"aBc"[..]));
}

#[test]
fn paths_stay_below_the_root() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut real = RealDisk::new(folder.path().join("root")).expect("the folder can be made");
    let mut mem = MemDisk::new();
    for disk in [&mut real as &mut dyn Disk, &mut mem] {
        for path in ["", "/etc/x", "../x", "a/../b", "a//b", "a/", "./a"] {
            assert!(matches!(disk.open(path), Err(DiskError::Io { .. })), "{path}");
        }
    }
}
