// How the fake plugin fails; included by it and by its test.
pub const WORKS: u32 = 0;
pub const OLD_VERSION: u32 = 1;
pub const NEXT_MAJOR: u32 = 2;
pub const NO_TABLE: u32 = 3;
pub const TINY_TABLE: u32 = 4;
pub const SHORT_TABLE: u32 = 5;
pub const NULL_ENTRY: u32 = 6;
pub const INITIALIZE_FAILS: u32 = 7;
pub const CLIENT_FAILS: u32 = 8;
pub const NO_DEVICES: u32 = 9;
pub const COMPILE_FAILS: u32 = 10;
pub const WRONG_OUTPUTS: u32 = 11;
pub const EXECUTE_FAILS: u32 = 12;
pub const EXECUTE_EVENT_FAILS: u32 = 13;
pub const NO_BUFFER: u32 = 14;
pub const UPLOAD_FAILS: u32 = 15;
pub const UPLOAD_EVENT_FAILS: u32 = 16;
pub const READ_FAILS: u32 = 17;
pub const READ_EVENT_FAILS: u32 = 18;
// What hangs goes on when the mode is WORKS again.
pub const UPLOAD_HANGS: u32 = 19;
pub const EXECUTE_HANGS: u32 = 20;
pub const READ_HANGS: u32 = 21;
// It cannot call when an event is over.
pub const NO_ON_READY: u32 = 22;
pub const EXECUTE_OUT_OF_MEMORY: u32 = 23;
// Nothing works any more, but freeing what is there.
pub const DIED: u32 = 24;
// A check finds index 3 out of range.
pub const BAD_INDEX: u32 = 25;
// Nothing says when memory of the host is free again.
pub const NO_UPLOAD_EVENT: u32 = 26;

// To be added to a mode.
pub const ON_READY_FAILS: u32 = 1 << 16;
// It has what is optional: serialized executables, a topology, attributes of devices.
pub const TELLS: u32 = 1 << 17;
// Its devices lie elsewhere.
pub const OTHER_COORDINATES: u32 = 1 << 18;
// It is another build.
pub const OTHER_BUILD: u32 = 1 << 19;
pub const FLAGS: u32 = 0xFFFF << 16;
