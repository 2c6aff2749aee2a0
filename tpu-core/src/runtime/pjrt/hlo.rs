//! What a plugin's optimized program says: instructions, the source lines they come from, the cycles they should take.
//!
//! The program is a protobuf `HloModuleProtoWithConfig`, of which a few fields matter here; they are read by hand. The
//! bytes are not trusted: lengths are checked, nothing is allocated for what is only promised, and messages are entered
//! field by field to a fixed depth.

use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// An optimized program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    pub entry: i64,
    pub computations: HashMap<i64, Computation>,
}

/// A list of instructions: the program itself, the body of a fusion or of a loop.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Computation {
    pub instructions: Vec<Instruction>,
    /// The number of the one whose result is that of the computation.
    pub root: i64,
    /// Where each instruction stands, by its number.
    places: HashMap<i64, usize>,
}

/// An operation of the optimized program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Instruction {
    pub name: String,
    pub opcode: String,
    /// The name of what a custom call calls.
    pub target: String,
    /// Its number, by which others name it as operand.
    pub id: i64,
    pub operands: Vec<i64>,
    /// Computations that it runs, by number.
    pub called: Vec<i64>,
    /// Of `get-tuple-element`: which.
    pub element: usize,
    /// Of `constant`: the value, if it is one integer.
    pub integer: Option<i64>,
    /// Of `compare`: `LT` and the like.
    pub direction: String,
    /// Of its result, without padding; 0 of what is not data.
    pub bytes: u64,
    pub source: Source,
    /// What the compiler noted for itself, JSON.
    pub config: String,
}

/// Where an operation came from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Source {
    /// The name that the program's text gave it.
    pub name: Arc<str>,
    /// The source file, empty if it is not known.
    pub file: Arc<str>,
    pub line: u32,
}

impl Computation {
    #[cfg(test)]
    pub fn new(instructions: Vec<Instruction>) -> Self {
        let places = instructions.iter().enumerate().map(|(at, instruction)| (instruction.id, at)).collect();
        Self { root: instructions.last().map_or(0, |last| last.id), instructions, places }
    }

    /// The instruction of this number.
    pub fn get(&self, id: i64) -> Option<&Instruction> {
        self.places.get(&id).map(|&at| &self.instructions[at])
    }

    /// Bytes of the result of the instruction of this number.
    pub fn bytes_of(&self, id: i64) -> u64 {
        self.get(id).map_or(0, |instruction| instruction.bytes)
    }
}

impl Instruction {
    /// How many cycles the compiler thinks that one run takes, if it says so. It writes the largest number that there is for
    /// some operations of which it does not know.
    pub fn estimated_cycles(&self) -> Option<u64> {
        let cycles = text_field(&self.config, "estimated_cycles")?.parse().ok()?;
        (cycles < i64::MAX as u64).then_some(cycles)
    }

    /// How often a loop runs its body, if the compiler knows.
    pub fn trip_count(&self) -> Option<u64> {
        let at = self.config.find("\"known_trip_count\"")?;
        text_field(&self.config[at..], "n")?.parse().ok()
    }
}

/// The value of a field of JSON that is a number, which protobuf may write as text: `"name":"12"`.
fn text_field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let behind = json.split_once(&format!("\"{name}\":"))?.1.trim_start_matches([' ', '"']);
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    Some(&behind[..end])
}

/// Reads an `HloModuleProtoWithConfig`. Errors with [`ErrorKind::Format`] if it is none.
pub fn read(bytes: &[u8]) -> Result<Module> {
    let mut module = Module::default();
    for field in Fields(bytes) {
        if let (1, Value::Bytes(bytes)) = field? {
            module = read_module(bytes)?;
        }
    }
    if module.computations.contains_key(&module.entry) {
        return Ok(module);
    }
    Err(wrong("an entry computation"))
}

fn read_module(bytes: &[u8]) -> Result<Module> {
    let (mut module, mut frames) = (Module::default(), Frames::default());
    let mut computations = Vec::new();
    for field in Fields(bytes) {
        match field? {
            (3, Value::Bytes(bytes)) => computations.push(bytes),
            (6, Value::Number(number)) => module.entry = number as i64,
            (17, Value::Bytes(bytes)) => frames = Frames::read(bytes)?,
            _ => {}
        }
    }
    // The frames stand behind the computations that refer to them.
    for bytes in computations {
        let (number, computation) = read_computation(bytes, &mut frames)?;
        module.computations.insert(number, computation);
    }
    Ok(module)
}

fn read_computation(bytes: &[u8], frames: &mut Frames) -> Result<(i64, Computation)> {
    let (mut id, mut computation) = (0, Computation::default());
    for field in Fields(bytes) {
        match field? {
            (2, Value::Bytes(bytes)) => {
                let instruction = read_instruction(bytes, frames)?;
                computation.places.insert(instruction.id, computation.instructions.len());
                computation.instructions.push(instruction);
            }
            (5, Value::Number(number)) => id = number as i64,
            (6, Value::Number(number)) => computation.root = number as i64,
            _ => {}
        }
    }
    Ok((id, computation))
}

fn read_instruction(bytes: &[u8], frames: &mut Frames) -> Result<Instruction> {
    let mut instruction = Instruction::default();
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(bytes)) => instruction.name = text(bytes),
            (2, Value::Bytes(bytes)) => instruction.opcode = text(bytes),
            (3, Value::Bytes(bytes)) => instruction.bytes = bytes_of_shape(bytes, TUPLES_IN_TUPLES)?,
            (7, Value::Bytes(bytes)) => instruction.source = frames.read_metadata(bytes)?,
            (8, Value::Bytes(bytes)) => instruction.integer = integer_of_literal(bytes)?,
            (13, Value::Number(number)) => instruction.element = number as usize,
            (28, Value::Bytes(bytes)) => instruction.target = text(bytes),
            (35, Value::Number(number)) => instruction.id = number as i64,
            (36, Value::Number(number)) => instruction.operands.push(number as i64),
            (36, Value::Bytes(bytes)) => packed(bytes, &mut instruction.operands)?,
            (38, Value::Number(number)) => instruction.called.push(number as i64),
            (38, Value::Bytes(bytes)) => packed(bytes, &mut instruction.called)?,
            (43, Value::Bytes(bytes)) => instruction.config = text(bytes),
            (63, Value::Bytes(bytes)) => instruction.direction = text(bytes),
            _ => {}
        }
    }
    Ok(instruction)
}

/// The value of a `LiteralProto` that is one integer of 32 or 64 bits.
fn integer_of_literal(bytes: &[u8]) -> Result<Option<i64>> {
    let mut values = Vec::new();
    for field in Fields(bytes) {
        match field? {
            // s32s, s64s, u32s, u64s
            (4..=7, Value::Number(number)) => values.push(number as i64),
            (4..=7, Value::Bytes(bytes)) => packed(bytes, &mut values)?,
            _ => {}
        }
    }
    Ok(if let [value] = values[..] { Some(value) } else { None })
}

/// How deep tuples may stand in each other.
const TUPLES_IN_TUPLES: usize = 16;

/// Bytes of a `ShapeProto`, of a tuple those of its parts.
fn bytes_of_shape(bytes: &[u8], depth: usize) -> Result<u64> {
    let depth = depth.checked_sub(1).ok_or_else(|| wrong("tuples that are not so deep"))?;
    let (mut bits, mut sizes, mut parts) = (0, Vec::new(), 0u64);
    for field in Fields(bytes) {
        match field? {
            (2, Value::Number(number)) => bits = bits_of(number),
            (3, Value::Number(number)) => sizes.push(number as i64),
            (3, Value::Bytes(bytes)) => packed(bytes, &mut sizes)?,
            (4, Value::Bytes(bytes)) => parts = parts.saturating_add(bytes_of_shape(bytes, depth)?),
            _ => {}
        }
    }
    let elements = sizes.iter().map(|&size| size.max(0) as u64).fold(1, u64::saturating_mul);
    Ok(parts.saturating_add(elements.saturating_mul(bits).div_ceil(8)))
}

/// Bits of an element of XLA's `PrimitiveType`; 0 of what is not data, such as tokens.
fn bits_of(kind: u64) -> u64 {
    match kind {
        // S2, U2; S4, U4, F4E2M1FN; S1, U1
        26 | 27 => 2,
        21 | 22 | 32 => 4,
        30 | 31 => 1,
        // PRED, S8, U8 and the 8-bit floats.
        1 | 2 | 6 | 19 | 20 | 23 | 24 | 25 | 28 | 29 | 33 => 8,
        // S16, U16, F16, BF16
        3 | 7 | 10 | 16 => 16,
        // S32, U32, F32
        4 | 8 | 11 => 32,
        // S64, U64, F64, C64
        5 | 9 | 12 | 15 => 64,
        // C128
        18 => 128,
        _ => 0,
    }
}

/// Places in source files, which instructions refer to by number, and texts that many instructions share.
#[derive(Default)]
struct Frames {
    files: Vec<Arc<str>>,
    /// File, from 1, and line.
    locations: Vec<(usize, u32)>,
    /// Location, from 1.
    frames: Vec<usize>,
    texts: HashMap<Vec<u8>, Arc<str>>,
}

impl Frames {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut frames = Self::default();
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(bytes)) => frames.files.push(text(bytes).into()),
                (3, Value::Bytes(bytes)) => {
                    let [file, line] = numbers(bytes, [1, 3])?;
                    frames.locations.push((file as usize, line as u32));
                }
                (4, Value::Bytes(bytes)) => frames.frames.push(numbers(bytes, [1])?[0] as usize),
                _ => {}
            }
        }
        Ok(frames)
    }

    /// File and line of a frame by its number, from 1.
    fn place(&self, frame: usize) -> Option<(Arc<str>, u32)> {
        let location = *self.frames.get(frame.checked_sub(1)?)?;
        let (file, line) = *self.locations.get(location.checked_sub(1)?)?;
        Some((self.files.get(file.checked_sub(1)?)?.clone(), line))
    }

    fn read_metadata(&mut self, bytes: &[u8]) -> Result<Source> {
        let (mut source, mut frame) = (Source::default(), 0);
        for field in Fields(bytes) {
            match field? {
                (2, Value::Bytes(bytes)) => source.name = self.shared(bytes),
                (3, Value::Bytes(bytes)) => source.file = self.shared(bytes),
                (4, Value::Number(line)) => source.line = line as u32,
                (15, Value::Number(number)) => frame = number as usize,
                _ => {}
            }
        }
        if let Some((file, line)) = self.place(frame).filter(|_| source.file.is_empty()) {
            (source.file, source.line) = (file, line);
        }
        Ok(source)
    }

    fn shared(&mut self, bytes: &[u8]) -> Arc<str> {
        if let Some(known) = self.texts.get(bytes) {
            return known.clone();
        }
        let new: Arc<str> = text(bytes).into();
        self.texts.insert(bytes.to_vec(), new.clone());
        new
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The numbers in these fields of a message, 0 where there is none.
fn numbers<const N: usize>(bytes: &[u8], wanted: [u64; N]) -> Result<[u64; N]> {
    let mut found = [0; N];
    for field in Fields(bytes) {
        if let (field, Value::Number(number)) = field?
            && let Some(at) = wanted.iter().position(|&wanted| wanted == field)
        {
            found[at] = number;
        }
    }
    Ok(found)
}

/// A list of numbers without tags.
fn packed(mut bytes: &[u8], into: &mut Vec<i64>) -> Result<()> {
    while !bytes.is_empty() {
        into.push(varint(&mut bytes)? as i64);
    }
    Ok(())
}

enum Value<'a> {
    Number(u64),
    /// Text, bytes, a message, or a list of numbers.
    Bytes(&'a [u8]),
    /// Four or eight bytes, which nothing here needs.
    Fixed,
}

/// The fields of a message that are left to read.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            // Nothing behind what is damaged can be told apart.
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>)> {
        let tag = varint(&mut self.0)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = varint(&mut self.0)?;
                Value::Bytes(self.take(usize::try_from(len).map_err(|_| wrong("a shorter field"))?)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(wrong("a field of a known kind")),
        };
        Ok((tag >> 3, value))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| wrong("as many bytes as a field announces"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Seven bits per byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else { return Err(wrong("the end of a number")) };
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(wrong("a number of at most 64 bits"))
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Format, "an optimized program", format!("requires {what}: the plugin's answer is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a message: of text or of another message, or a number.
    fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
        [&varint_of(field << 3 | 2)[..], &varint_of(content.len() as u64), content].concat()
    }
    fn number(field: u64, value: u64) -> Vec<u8> {
        [varint_of(field << 3), varint_of(value)].concat()
    }
    fn varint_of(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    /// By XLA's `hlo.proto` and `xla_data.proto`: a fusion of f32[8, 4] with a place of its own, and in it one whose place is
    /// frame 1; both field forms of lists of numbers.
    fn program() -> Vec<u8> {
        let shape = [number(2, 11), bytes(3, &[8, 4])].concat();
        let tuple = [number(2, 13), bytes(4, &shape), bytes(4, &[number(2, 16), number(3, 3)].concat())].concat();
        let metadata = [bytes(2, b"wte/add"), bytes(3, b"a.rs"), number(4, 300)].concat();
        let config = br#"{"window_config":{"estimated_cycles":"1827","iteration_bounds":["1"]}}"#;
        let inner = [
            bytes(1, b"add.1"),
            bytes(2, b"add"),
            bytes(3, &tuple),
            bytes(7, &[bytes(2, b"multiply"), number(15, 1)].concat()),
            number(35, 7),
        ]
        .concat();
        let fusion = [
            bytes(1, b"fusion"),
            bytes(2, b"fusion"),
            bytes(3, &shape),
            bytes(7, &metadata),
            number(35, 9),
            bytes(36, &[1, 0x80, 1]),
            number(38, 5),
            bytes(43, config),
            // Fields of other kinds are passed over.
            [0x99, 0x06, 1, 2, 3, 4, 5, 6, 7, 8].to_vec(),
            [0x9d, 0x06, 1, 2, 3, 4].to_vec(),
        ]
        .concat();
        let frames = [bytes(1, b"b.rs"), bytes(3, &[number(1, 1), number(3, 42)].concat()), bytes(4, &number(1, 1))];
        let module = [
            bytes(3, &[bytes(2, &inner), number(5, 5)].concat()),
            bytes(3, &[bytes(2, &fusion), number(5, 6)].concat()),
            number(6, 6),
            bytes(17, &frames.concat()),
        ];
        bytes(1, &module.concat())
    }

    #[test]
    fn what_matters_of_a_program_is_read() {
        let module = read(&program()).unwrap();
        let fusion = &module.computations[&module.entry].instructions[0];
        assert_eq!((&*fusion.name, &*fusion.opcode, fusion.bytes), ("fusion", "fusion", 4 * 8 * 4));
        assert_eq!((fusion.id, &fusion.operands[..], &fusion.called[..]), (9, &[1, 128][..], &[5][..]));
        assert_eq!(fusion.estimated_cycles(), Some(1827));
        assert_eq!((&*fusion.source.file, fusion.source.line, &*fusion.source.name), ("a.rs", 300, "wte/add"));
        let inner = &module.computations[&5].instructions[0];
        assert_eq!((&*inner.source.file, inner.source.line, &*inner.source.name), ("b.rs", 42, "multiply"));
        // A tuple of f32[8, 4] and bf16[3].
        assert_eq!((inner.bytes, module.computations[&5].bytes_of(7)), (4 * 8 * 4 + 2 * 3, 4 * 8 * 4 + 2 * 3));
        assert_eq!((inner.estimated_cycles(), inner.trip_count()), (None, None));
    }

    #[test]
    fn notes_of_the_compiler_are_numbers_in_json() {
        let config = r#"{"known_trip_count":{"n":"12"},"window_config":{"estimated_cycles":"7"}}"#;
        let instruction = Instruction { config: config.into(), ..Instruction::default() };
        assert_eq!((instruction.trip_count(), instruction.estimated_cycles()), (Some(12), Some(7)));
        for config in [
            "",
            "{\"estimated_cycles\":\"\"}",
            "\"estimated_cycles\":",
            "\"estimated_cycles\":\"99999999999999999999\"",
            "\"estimated_cycles\":\"9223372036854775807\"",
        ] {
            let instruction = Instruction { config: config.into(), ..Instruction::default() };
            assert_eq!(instruction.estimated_cycles(), None, "{config}");
        }
    }

    #[test]
    fn damaged_programs_are_errors_or_other_programs_and_never_more() {
        let whole = program();
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).unwrap_err().kind(), ErrorKind::Format, "{end}");
        }
        for at in 0..whole.len() {
            for change in [1, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= change;
                let _ = read(&damaged);
            }
        }
        // A length of 2⁶³, a number of eleven bytes, a group.
        for bytes in [&[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1][..], &[0xff; 12], &[0x0b, 0x0c]]
        {
            assert_eq!(read(bytes).unwrap_err().kind(), ErrorKind::Format);
        }
        // Tuples in tuples, deeper than a compiler's.
        let mut shape = number(2, 11);
        for _ in 0..100_000 {
            shape = bytes(4, &shape);
            if shape.len() > 1 << 16 {
                break;
            }
        }
        let instruction = bytes(2, &bytes(3, &shape));
        let error = read(&bytes(1, &bytes(3, &instruction))).unwrap_err();
        assert!(error.message().contains("so deep"), "{error}");
    }

    #[test]
    fn elements_have_the_bits_of_their_type() {
        // Numbers of PrimitiveType in xla_data.proto.
        let types =
            [(1, 8), (2, 8), (21, 4), (26, 2), (30, 1), (3, 16), (16, 16), (4, 32), (11, 32), (12, 64), (15, 64)];
        for (kind, bits) in types.into_iter().chain([(18, 128), (19, 8), (20, 8), (13, 0), (17, 0)]) {
            assert_eq!(bits_of(kind), bits, "{kind}");
        }
    }
}
