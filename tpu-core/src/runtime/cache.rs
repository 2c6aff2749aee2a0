//! Compiled programs that outlive the process.

use crate::{Error, ErrorKind, Result, ensure};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

/// A folder of compiled programs, for backends whose compiler is slow. Off unless `TPU_CACHE_DIR` names a folder or a
/// program asks for one; the host backend compiles in microseconds and has no use for it.
///
/// An entry counts only for the very program, compiler options and [plugin](crate::runtime::pjrt::Pjrt::identity) that
/// it was made for: all of it is stored and compared. Entries that were compiled ahead of time, by `tpu-plan --emit DIR` for
/// example, count for any plugin of the same build on the same kind of device. One that is damaged is reported once, ignored and written anew.
/// Several processes may use one folder at the same time. What they store is machine code, so the folder belongs to
/// nobody but its user: it is made with access for the owner only.
///
/// ```
/// use tpu_core::runtime::Cache;
/// let dir = std::env::temp_dir().join(format!("tpu-cache-example-{}", std::process::id()));
/// let cache = Cache::persistent(&dir)?.with_limit(1 << 20);
/// cache.store(b"a key", b"a program");
/// assert_eq!(cache.load(b"a key").as_deref(), Some(&b"a program"[..]));
/// assert_eq!(cache.load(b"another key"), None);
/// std::fs::remove_dir_all(dir).expect("it is there");
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cache(Arc<Folder>);

#[derive(Clone, Debug)]
struct Folder {
    dir: PathBuf,
    limit: u64,
}

static DEFAULT: RwLock<Option<Cache>> = RwLock::new(None);

/// Bytes where nobody sets a limit.
const LIMIT: u64 = 4 << 30;
const ENDING: &str = "tpuprogram";
const TEMPORARY: &str = "tmp";
/// What files start with; the last byte is the version of the form.
const MAGIC: &[u8; 8] = b"TPUPROG\x01";
/// Magic, length of the key, length of the program, check sum.
const HEAD: usize = 32;

impl Cache {
    /// The cache in a folder, which is made if it is not there. Errors with [`ErrorKind::Io`] if it cannot be, or if others
    /// than its owner may write to it.
    pub fn persistent(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        let refused =
            |why: String| Error::new(ErrorKind::Io, "cache", format!("cannot use the folder {}: {why}", dir.display()));
        make(&dir).map_err(|error| refused(error.to_string()))?;
        if others_write(&dir) {
            return Err(refused("others may write to it, and what is in it is run as code".into()));
        }
        Ok(Self(Arc::new(Folder { dir, limit: LIMIT })))
    }

    /// The same folder, in which at most so many bytes are left after storing; 4 GiB unless set. What was not used for
    /// the longest time goes first.
    pub fn with_limit(&self, bytes: u64) -> Self {
        Self(Arc::new(Folder { limit: bytes, ..Folder::clone(&self.0) }))
    }

    /// Makes this the cache of backends that are opened from now on without one of their own.
    pub fn set_default(&self) {
        *DEFAULT.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(self.clone());
    }

    /// The cache of a backend that has none of its own: what [`set_default`](Self::set_default) was called on, else that
    /// in `TPU_CACHE_DIR`, limited to `TPU_CACHE_BYTES`. Errors if one of these variables is of no use.
    pub fn default_of_process() -> Result<Option<Self>> {
        if let Some(cache) = &*DEFAULT.read().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            return Ok(Some(cache.clone()));
        }
        let dir = std::env::var_os("TPU_CACHE_DIR").filter(|dir| !dir.is_empty());
        let Some(dir) = dir else { return Ok(None) };
        let cache = Self::persistent(dir)?;
        match std::env::var("TPU_CACHE_BYTES") {
            Err(_) => Ok(Some(cache)),
            Ok(text) => match text.parse() {
                Ok(bytes) => Ok(Some(cache.with_limit(bytes))),
                Err(_) => {
                    let message = format!("requires a number of bytes in TPU_CACHE_BYTES, got {text:?}");
                    Err(Error::new(ErrorKind::Value, "cache", message))
                }
            },
        }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The program stored under a key. An entry that cannot be read counts as not there.
    pub fn load(&self, key: &[u8]) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a cached program cannot be opened");
                return None;
            }
        };
        match read(&mut file) {
            Ok((known, program)) if known == key => {
                // The age that decides what goes first. A folder that is only readable is as good.
                let _ = file.set_modified(SystemTime::now());
                Some(program)
            }
            Ok(_) => None,
            Err(why) => {
                tracing::warn!(path = %path.display(), why, "a cached program is damaged and will be compiled anew");
                None
            }
        }
    }

    /// Stores a program. A folder that cannot be written to is a warning, as everything works without.
    pub fn store(&self, key: &[u8], program: &[u8]) {
        if let Err(error) = self.try_store(key, program) {
            tracing::warn!(%error, "a compiled program cannot be cached");
        }
    }

    /// Stores a program, and says in which file. Errors with [`ErrorKind::Io`] if it cannot be written, with
    /// [`ErrorKind::Value`] if it is larger than the cache may be.
    pub(crate) fn try_store(&self, key: &[u8], program: &[u8]) -> Result<PathBuf> {
        let bytes = (HEAD + key.len() + program.len()) as u64;
        let limit = self.0.limit;
        ensure!(bytes <= limit, Value, "cache", "requires programs of at most {limit} bytes, got one of {bytes}");
        let path = self.path(key);
        match self.write(&path, key, program) {
            Ok(()) => Ok(path),
            Err(error) => Err(Error::io("cache", &path, &error)),
        }
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        // Keys of one name would take turns, no more: keys are compared in full.
        let name = format!("{:016x}{:016x}", fnv(key, BASIS), fnv(key, !BASIS));
        self.0.dir.join(name).with_extension(ENDING)
    }

    fn write(&self, path: &Path, key: &[u8], program: &[u8]) -> std::io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        make(&self.0.dir)?;
        // Under a name of its own first, so that nobody ever sees half of it.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}.{TEMPORARY}", std::process::id()));
        let mut content = Vec::with_capacity(HEAD + key.len() + program.len());
        content.extend(MAGIC);
        content.extend((key.len() as u64).to_le_bytes());
        content.extend((program.len() as u64).to_le_bytes());
        content.extend(sum(key, program).to_le_bytes());
        content.extend(key);
        content.extend(program);
        let written = File::create_new(&temporary)
            .and_then(|mut file| file.write_all(&content))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.evict()
    }

    /// Removes what was not used for the longest time until the rest is within the limit, and what writers left behind.
    fn evict(&self) -> std::io::Result<()> {
        let mut entries = Vec::new();
        let now = SystemTime::now();
        for entry in fs::read_dir(&self.0.dir)? {
            // Another process may remove it at any time.
            let Ok((path, data)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else { continue };
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let ending = path.extension().and_then(OsStr::to_str);
            if ending == Some(ENDING) {
                entries.push((used, data.len(), path));
            } else if ending == Some(TEMPORARY) && now.duration_since(used).is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            }
        }
        let mut bytes: u64 = entries.iter().map(|entry| entry.1).sum();
        entries.sort();
        for (_, size, path) in entries {
            if bytes <= self.0.limit {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= size;
        }
        Ok(())
    }
}

/// The age from which nobody is still writing a file.
const ABANDONED: Duration = Duration::from_secs(3600);

#[cfg(unix)]
fn others_write(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(dir).is_ok_and(|data| data.permissions().mode() & 0o022 != 0)
}
#[cfg(not(unix))]
fn others_write(_: &Path) -> bool {
    false
}

fn make(dir: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// The key and the program in an entry's file. Errors with [`ErrorKind::Io`] if it cannot be opened, with
/// [`ErrorKind::Format`] if it is damaged.
pub(crate) fn read_file(path: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut file = File::open(path).map_err(|error| Error::io("cache", path, &error))?;
    read(&mut file).map_err(|why| {
        let message = format!("requires a compiled program in {}: {why}", path.display());
        Error::new(ErrorKind::Format, "cache", message)
    })
}

/// The key and the program in a file; an error says what is wrong with it.
fn read(file: &mut File) -> std::result::Result<(Vec<u8>, Vec<u8>), &'static str> {
    let unreadable = |_| "it cannot be read";
    let size = file.metadata().map_err(unreadable)?.len();
    let mut head = [0; HEAD];
    file.read_exact(&mut head).map_err(|_| "it is shorter than its head")?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    if head[..8] != *MAGIC {
        return Err("it is of another form");
    }
    let (key_bytes, program_bytes) = (number(8), number(16));
    // Against the file's size before anything is allocated.
    let total = key_bytes.checked_add(program_bytes).and_then(|bytes| bytes.checked_add(HEAD as u64));
    if total != Some(size) {
        return Err("its length is not what its head says");
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 != key_bytes + program_bytes {
        return Err("its length changed while it was read");
    }
    let program = content.split_off(key_bytes as usize);
    if sum(&content, &program) != number(24) {
        return Err("its check sum is wrong");
    }
    Ok((content, program))
}

fn sum(key: &[u8], program: &[u8]) -> u64 {
    fnv(program, fnv(key, BASIS))
}

/// The hash of Fowler, Noll and Vo, variant 1a, from its basis on; it finds accidents, not malice.
fn fnv(bytes: &[u8], basis: u64) -> u64 {
    bytes.iter().fold(basis, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// A key of parts, each with its length before it, so that different parts are different keys.
pub(crate) fn key(parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        key.extend((part.len() as u64).to_le_bytes());
        key.extend(*part);
    }
    key
}

/// The parts of which [`key`] made a key; `None` of other bytes.
pub(crate) fn parts(mut key: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !key.is_empty() {
        let (len, rest) = key.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        parts.push(part);
        key = rest;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(cache: &Cache) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(cache.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn the_hash_is_that_of_its_authors() {
        // Test vectors of draft-eastlake-fnv.
        assert_eq!(fnv(b"", BASIS), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a", BASIS), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(b"foobar", BASIS), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn every_damage_is_a_miss_and_storing_again_mends_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::persistent(dir.path()).unwrap();
        let (key, program) = (b"identity and text".as_slice(), [7u8; 100]);
        cache.store(key, &program);
        let [path] = &files(&cache)[..] else { panic!("one file") };
        let good = fs::read(path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(path, bad).unwrap();
            assert_eq!(cache.load(key), None, "byte {at}");
            fs::write(path, &good[..at]).unwrap();
            assert_eq!(cache.load(key), None, "cut at {at}");
        }
        // Lengths that would overflow, or ask for more memory than there is.
        for lengths in [[u64::MAX, 1], [1 << 62, 1 << 62], [u64::MAX, u64::MAX]] {
            let mut bad = good.clone();
            bad[8..16].copy_from_slice(&lengths[0].to_le_bytes());
            bad[16..24].copy_from_slice(&lengths[1].to_le_bytes());
            fs::write(path, bad).unwrap();
            assert_eq!(cache.load(key), None);
        }
        cache.store(key, &program);
        assert_eq!(cache.load(key).as_deref(), Some(&program[..]));
    }

    #[test]
    fn an_entry_counts_for_its_whole_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::persistent(dir.path()).unwrap();
        cache.store(b"one", b"program of one");
        // As if both had the same name.
        fs::rename(cache.path(b"one"), cache.path(b"two")).unwrap();
        assert_eq!(cache.load(b"two"), None);
        cache.store(b"two", b"program of two");
        assert_eq!(cache.load(b"two").as_deref(), Some(&b"program of two"[..]));
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
    }

    #[test]
    fn a_key_comes_apart_again_and_other_bytes_do_not() {
        let all: &[&[u8]] = &[b"identity", b"", b"text"];
        let whole = key(all);
        assert_eq!(parts(&whole).as_deref(), Some(all));
        assert_eq!(parts(b""), Some(vec![]));
        // Cut anywhere but between parts, of which one ends behind 16 and one behind 24 bytes.
        for at in (1..whole.len()).filter(|at| ![16, 24].contains(at)) {
            assert_eq!(parts(&whole[..at]), None, "{at}");
        }
        assert_eq!(parts(&[0xff; 8]), None);
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let size = (HEAD + 1 + 1000) as u64;
        let cache = Cache::persistent(dir.path()).unwrap().with_limit(3 * size);
        let store = |key: &[u8], minutes: u64| {
            cache.store(key, &[0; 1000]);
            let old = SystemTime::now() - Duration::from_secs(60 * minutes);
            File::options().write(true).open(cache.path(key)).unwrap().set_modified(old).unwrap();
        };
        store(b"a", 30);
        store(b"b", 20);
        store(b"c", 10);
        // Used again, so now the youngest.
        assert!(cache.load(b"a").is_some());
        cache.store(b"d", &[0; 1000]);
        assert_eq!([b"a", b"b", b"c", b"d"].map(|key| cache.load(key).is_some()), [true, false, true, true]);
        // Larger than all of the cache.
        cache.store(b"e", &[0; 10_000]);
        assert!(cache.load(b"e").is_none() && cache.load(b"d").is_some());
    }

    #[test]
    fn what_a_killed_writer_left_behind_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::persistent(dir.path()).unwrap();
        let (old, new) = (dir.path().join("x.1-0.tmp"), dir.path().join("y.1-0.tmp"));
        fs::write(&old, "half").unwrap();
        fs::write(&new, "half").unwrap();
        let long_ago = SystemTime::now() - 2 * ABANDONED;
        File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        cache.store(b"key", b"program");
        assert!(!old.exists() && new.exists());
    }

    #[test]
    fn many_writers_and_readers_see_whole_entries_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::persistent(dir.path()).unwrap().with_limit(200_000);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..50u8 {
                        let key = [round % 5];
                        cache.store(&key, &vec![round % 5; 50_000]);
                        let other = [(round + thread) % 5];
                        if let Some(program) = cache.load(&other) {
                            assert_eq!(program, vec![other[0]; 50_000]);
                        }
                    }
                });
            }
        });
        assert!(files(&cache).iter().all(|path| path.extension() == Some(OsStr::new(ENDING))));
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error_and_one_that_vanishes_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(Cache::persistent(file.join("below")).unwrap_err().kind(), ErrorKind::Io);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let open = dir.path().join("open");
            fs::create_dir(&open).unwrap();
            fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
            assert_eq!(Cache::persistent(open).unwrap_err().kind(), ErrorKind::Io);
        }
        let cache = Cache::persistent(dir.path().join("cache")).unwrap();
        fs::remove_dir(cache.dir()).unwrap();
        assert_eq!(cache.load(b"key"), None);
        cache.store(b"key", b"program");
        assert!(cache.load(b"key").is_some());
    }
}
