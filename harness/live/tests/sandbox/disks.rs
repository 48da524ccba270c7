//! Disks of nodes that forget, fill up and slow down.

use super::*;
use riprap_core::Seed;
use riprap_live::disk::{Disk, can_be_had};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;

/// What a run of `check` gets: the folder of a disk, and the disk.
type Body = fn(&Path, &mut Disk);

/// Runs a body on a mounted disk. Where no file system of our own can be had, says so instead.
#[track_caller]
fn check(test: &str, body: Body) {
    if !is_inner_part_of(test) {
        for user in users() {
            Run::start(test, user, &[]).end().expect(0);
        }
        return;
    }
    enter_and(|_| {
        if let Err(why) = can_be_had() {
            return eprintln!("skipped: no file system of our own: {why}");
        }
        let data = folder().join("data");
        fs::create_dir(&data).expect("a folder of ours");
        let mut disk = disk(&data, 1);
        body(&data, &mut disk);
        disk.unmount().expect("nobody has it open");
        // What it shows lies beneath.
        assert_eq!(fs::read_dir(&data).expect("still there").count(), entries(&data).len());
    });
}

fn disk(data: &Path, seed: u64) -> Disk {
    let random = Seed(seed).stream("n1", "power");
    Disk::mount(data.to_owned(), data.with_file_name("removed"), random).unwrap_or_else(|e| panic!("{e}"))
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn fail(disk: &mut Disk) -> riprap_core::cluster::Lost {
    disk.cut_power();
    disk.power_fail().unwrap_or_else(|e| panic!("{e}"))
}

/// Changes a file through a mapping, and maybe has that brought to the disk: in a process that does not serve it.
fn map_and_write(file: &fs::File, byte: u8, count: usize, sync: bool) {
    let len = file.metadata().expect("open").len() as usize;
    // SAFETY: the child makes system calls and writes to its own mapping, which is as long as the file, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(ptr::null_mut(), len, both, libc::MAP_SHARED, file.as_raw_fd(), 0);
            if at == libc::MAP_FAILED {
                libc::_exit(1);
            }
            ptr::write_bytes(at.cast::<u8>(), byte, count);
            libc::_exit(if sync { libc::msync(at, len, libc::MS_SYNC) } else { 0 });
        }
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` is where its status goes.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_disk_is_a_folder_like_another() {
    check("disks::a_disk_is_a_folder_like_another", |data, _| {
        let a = data.join("a");
        fs::write(&a, "one").expect("written");
        let mut appended = fs::File::options().append(true).open(&a).expect("open");
        appended.write_all(b" two").expect("written");
        assert_eq!(fs::read_to_string(&a).expect("read"), "one two");
        fs::create_dir_all(data.join("deep/er")).expect("made");
        fs::rename(&a, data.join("deep/er/b")).expect("renamed");
        fs::rename(data.join("deep"), data.join("low")).expect("renamed");
        appended.write_all(b" three").expect("it is open, whatever its name");
        assert_eq!(fs::read_to_string(data.join("low/er/b")).expect("read"), "one two three");
        assert!(fs::remove_dir(data.join("low")).is_err(), "not empty");
        fs::write(data.join("c"), "c").expect("written");
        fs::rename(data.join("c"), data.join("low/er/b")).expect("replaced");
        assert_eq!(fs::read_to_string(data.join("low/er/b")).expect("read"), "c");
        appended.write_all(b" four").expect("it is open, though it has no name");
        assert_eq!(appended.metadata().expect("open").len(), 18);
        appended.set_len(3).expect("cut");
        assert_eq!(appended.metadata().expect("open").len(), 3);
        fs::set_permissions(data.join("low/er/b"), fs::Permissions::from_mode(0o600)).expect("ours");
        let found = fs::metadata(data.join("low/er/b")).expect("there");
        assert_eq!((found.len(), found.permissions().mode() & 0o777), (1, 0o600));
        assert!(std::os::unix::fs::symlink("c", data.join("link")).is_err(), "no links");
        for n in 0..300 {
            fs::write(data.join(format!("many{n:03}")), "").expect("written");
        }
        assert_eq!(entries(data).len(), 301);
        fs::remove_file(data.join("many007")).expect("removed");
        assert_eq!(entries(data).len(), 300);
        assert!(!data.join("many007").exists());
        let status = Command::new("sh").args(["-c", "echo shell > d; cat d"]).current_dir(data).output();
        assert_eq!(status.expect("runs").stdout, b"shell\n");
    });
}

#[test]
fn what_was_synced_survives_and_of_the_rest_what_came_first() {
    check("disks::what_was_synced_survives_and_of_the_rest_what_came_first", |data, disk| {
        let (mut all, mut some, mut none) = (0, 0, 0);
        for round in 0..24 {
            let path = data.join(format!("log{round}"));
            let mut file = fs::File::create(&path).expect("made");
            file.write_all(b"synced").expect("written");
            file.sync_data().expect("synced");
            for n in 0..5 {
                write!(file, " {n}{n}{n}").expect("written");
            }
            fs::write(data.join(format!("name{round}")), "").expect("made");
            drop(file);
            let lost = fail(disk);
            let left = fs::read_to_string(&path).expect("its name was synced, too");
            let whole = "synced 000 111 222 333 444";
            assert!(whole.starts_with(&left) && left.len() >= 6, "{left:?}");
            assert_eq!(lost.bytes, (whole.len() - left.len()) as u64, "{left:?}");
            assert_eq!(lost.names, u64::from(!data.join(format!("name{round}")).exists()));
            *(match left.len() {
                6 => &mut none,
                26 => &mut all,
                _ => &mut some,
            }) += 1;
        }
        assert!(all > 0 && some > 0 && none > 0, "{all} {some} {none}");
    });
}

#[test]
fn names_survive_in_their_order() {
    check("disks::names_survive_in_their_order", |data, disk| {
        let mut seen = BTreeSet::new();
        for round in 0..24 {
            let here = data.join(format!("round{round}"));
            fs::create_dir(&here).expect("made");
            fs::write(here.join("old"), "old").expect("made");
            let made = fs::File::open(here.join("old")).expect("there");
            made.sync_all().expect("a file's sync is its name's, too");
            fs::write(here.join("new"), "new!").expect("made");
            fs::rename(here.join("new"), here.join("old")).expect("replaced");
            fs::remove_file(here.join("old")).expect("removed");
            drop(made);
            fail(disk);
            let old = fs::read_to_string(here.join("old")).ok();
            let new = fs::read_to_string(here.join("new")).ok();
            // What replaces another file is written before it does; what is new may be empty still, or in part.
            match (old.as_deref(), new.as_deref()) {
                (Some("old"), None) => seen.insert("nothing"),
                (Some("old"), Some(part)) if "new!".starts_with(part) => seen.insert("made"),
                (Some("new!"), None) => seen.insert("replaced"),
                (None, None) => seen.insert("removed"),
                other => panic!("{other:?}"),
            };
        }
        assert!(seen.contains("nothing") && seen.contains("removed") && seen.len() > 2, "{seen:?}");
    });
}

#[test]
fn what_is_mapped_forgets_too() {
    check("disks::what_is_mapped_forgets_too", |data, disk| {
        let path = data.join("index");
        let mut lost = 0;
        for round in 0..16_u8 {
            let file = fs::File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .expect("made");
            file.set_len(1 << 20).expect("sparse");
            map_and_write(&file, round, 100, true);
            map_and_write(&file, 0xff, 50, false);
            let mut now = [0; 100];
            file.read_exact_at(&mut now, 0).expect("read");
            assert_eq!((now[0], now[99]), (0xff, round), "a mapping and a read are of one mind");
            drop(file);
            fail(disk);
            let left = fs::read(&path).expect("read");
            assert_eq!((left.len(), left[99]), (1 << 20, round));
            assert!(left[..50].iter().all(|byte| *byte == left[0]), "it was one write");
            lost += u32::from(left[0] == round);
        }
        assert!((1..16).contains(&lost), "{lost}");
    });
}

#[test]
fn a_full_disk_takes_what_fits() {
    check("disks::a_full_disk_takes_what_fits", |data, disk| {
        let path = data.join("log");
        let mut file = fs::File::create(&path).expect("made");
        file.write_all(&[1; 100_000]).expect("written");
        assert_eq!(disk.room().expect("asked"), None);
        disk.set_room(Some(1000));
        assert!((489..=1000).contains(&disk.room().expect("asked").expect("limited")));
        assert!(!disk.has_refused());
        let wrote = file.write(&[2; 3000]).expect("some fit");
        assert_eq!((wrote, disk.room().expect("asked")), (1000, Some(0)));
        let refused = file.write(&[3; 1]).expect_err("none is left");
        assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
        assert!(disk.has_refused());
        file.write_at(&[4; 100], 0).expect("it is there already");
        file.set_len(100_500).expect("cut");
        file.write_at(&[5; 400], 100_500).expect("there is room again");
        disk.set_room(None);
        file.write_at(&[6; 9000], 100_500).expect("there is room");
        drop(file);
        fs::remove_file(&path).expect("removed");
    });
}

#[test]
fn a_slow_disk_takes_its_time_and_lets_go() {
    check("disks::a_slow_disk_takes_its_time_and_lets_go", |data, disk| {
        let mut file = fs::File::create(data.join("log")).expect("made");
        file.write_all(b"a").expect("written");
        disk.set_slowness(400);
        assert_eq!(disk.slowness(), 400);
        let began = Instant::now();
        file.sync_data().expect("synced");
        // A sync counts as half a millisecond at least.
        assert!(began.elapsed() >= Duration::from_micros(399 * 500), "{:?}", began.elapsed());
        disk.set_slowness(1_000_000);
        let began = Instant::now();
        let waits = thread::spawn(move || file.sync_data().map(|()| file));
        while began.elapsed() < Duration::from_millis(50) {
            fs::write(data.join("other"), "goes on").expect("written");
        }
        assert!(!waits.is_finished());
        disk.let_go(true);
        waits.join().expect("no panic").expect("synced");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    });
}

#[test]
fn what_is_damaged_is_damaged_for_good() {
    check("disks::what_is_damaged_is_damaged_for_good", |data, disk| {
        let path = data.join("log");
        for _ in 0..8 {
            fs::write(&path, "whole").expect("written");
            fs::File::open(&path).expect("open").sync_all().expect("synced");
            let damage = || fs::File::options().write(true).open(&path)?.write_all_at(b"X", 2);
            disk.durably(damage).expect("damaged");
            fail(disk);
            assert_eq!(fs::read_to_string(&path).expect("read"), "whXle");
        }
        let filled =
            disk.change_beneath(|| fs::remove_file(&path).and_then(|()| fs::write(data.join("b"), "b")));
        filled.expect("mounted").expect("changed");
        assert_eq!(entries(data), ["b"]);
        fail(disk);
        assert_eq!(fs::read_to_string(data.join("b")).expect("read"), "b");
    });
}
