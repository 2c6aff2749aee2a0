// How the fake plugin fails; included by it and by its test.
const WORKS: u32 = 0;
const OLD_VERSION: u32 = 1;
const NEXT_MAJOR: u32 = 2;
const NO_TABLE: u32 = 3;
const TINY_TABLE: u32 = 4;
const SHORT_TABLE: u32 = 5;
const NULL_ENTRY: u32 = 6;
const INITIALIZE_FAILS: u32 = 7;
const CLIENT_FAILS: u32 = 8;
const NO_DEVICES: u32 = 9;
const COMPILE_FAILS: u32 = 10;
const WRONG_OUTPUTS: u32 = 11;
const EXECUTE_FAILS: u32 = 12;
const EXECUTE_EVENT_FAILS: u32 = 13;
const NO_BUFFER: u32 = 14;
const UPLOAD_FAILS: u32 = 15;
const UPLOAD_EVENT_FAILS: u32 = 16;
const READ_FAILS: u32 = 17;
const READ_EVENT_FAILS: u32 = 18;
// What hangs goes on when the mode is WORKS again.
const UPLOAD_HANGS: u32 = 19;
const EXECUTE_HANGS: u32 = 20;
const READ_HANGS: u32 = 21;
// It cannot call when an event is over.
const NO_ON_READY: u32 = 22;
