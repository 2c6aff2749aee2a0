//! The text as a tree: functions, operations, attributes, not yet knowing what any operation means.

use super::attributes::{parse_tensor, unquoted};
use super::lex::{self, Kind, Token};
use super::literal::{self, Content};
use crate::ir::Type;
use crate::ir::verify::MAX_DEPTH;
use crate::{Literal, Result};

/// Regions within regions: as deep as blocks may be nested, and the region of a reduction within.
const DEEPEST: usize = MAX_DEPTH + 1;

/// `func.func public @name(arguments) -> (results) attributes {…} {…}`
pub(super) struct Function<'t> {
    pub(super) start: usize,
    pub(super) name: &'t str,
    pub(super) attributes: Vec<(String, Value<'t>)>,
    pub(super) body: Region<'t>,
}

/// Operations with the names and types of what they are given.
pub(super) struct Region<'t> {
    pub(super) arguments: Vec<(&'t str, Type)>,
    pub(super) operations: Vec<Operation<'t>>,
}

/// `%results = "name"(operands) <{attributes}> (regions) : (from) -> to`
pub(super) struct Operation<'t> {
    pub(super) start: usize,
    /// Names with the number of results that they stand for, in sum as many as `to`.
    pub(super) results: Vec<(&'t str, usize)>,
    pub(super) name: String,
    pub(super) operands: Vec<&'t str>,
    pub(super) attributes: Vec<(String, Value<'t>)>,
    pub(super) regions: Vec<Region<'t>>,
    pub(super) to: Vec<Type>,
}

/// The value of an attribute.
pub(super) enum Value<'t> {
    Flag(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
    Flags(Vec<bool>),
    Dense(Literal),
    Symbol(&'t str),
    Entries(Vec<(String, Value<'t>)>),
    List(Vec<Value<'t>>),
    /// What stands between the angle brackets of `#stablehlo…<…>`.
    Dialect(Vec<Token<'t>>),
}

/// The functions of a module.
pub(super) fn module<'t>(source: &'t str, tokens: &[Token<'t>]) -> Result<Vec<Function<'t>>> {
    let mut reader = Reader { source, tokens, at: 0 };
    reader.word("module")?;
    reader.word("@program")?;
    reader.word("{")?;
    let mut functions = Vec::new();
    while !reader.accept("}") {
        functions.push(reader.function()?);
    }
    match reader.peek().kind {
        Kind::End => Ok(functions),
        _ => Err(reader.expected("nothing after the module")),
    }
}

struct Reader<'s, 't> {
    source: &'t str,
    tokens: &'s [Token<'t>],
    at: usize,
}

impl<'t> Reader<'_, 't> {
    fn peek(&self) -> Token<'t> {
        // The last token is the end, and is never passed.
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn expected(&self, what: &str) -> crate::Error {
        let token = self.peek();
        let got = if token.kind == Kind::End { "the end" } else { token.text };
        lex::error(self.source, token.start, format_args!("{what}, got {}", shortened(got)))
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.peek().text == text;
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, text: &str) -> Result<()> {
        if self.accept(text) { Ok(()) } else { Err(self.expected(text)) }
    }

    fn of_kind(&mut self, kind: Kind, what: &str) -> Result<&'t str> {
        if self.peek().kind == kind { Ok(self.next().text) } else { Err(self.expected(what)) }
    }

    /// `one` again and again, with commas between, until `close`.
    fn list<T>(&mut self, close: &str, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.accept(close) {
            return Ok(items);
        }
        loop {
            items.push(one(self)?);
            if self.accept(close) {
                return Ok(items);
            }
            self.word(",")?;
        }
    }

    fn ty(&mut self) -> Result<Type> {
        match parse_tensor(self.peek().text) {
            Some(ty) => {
                self.at += 1;
                Ok(ty)
            }
            None => Err(self.expected("a tensor type")),
        }
    }

    fn argument(&mut self) -> Result<(&'t str, Type)> {
        let name = self.of_kind(Kind::Value, "a value")?;
        self.word(":")?;
        Ok((name, self.ty()?))
    }

    fn function(&mut self) -> Result<Function<'t>> {
        let start = self.peek().start;
        self.word("func.func")?;
        if !self.accept("private") {
            self.word("public")?;
        }
        let name = self.of_kind(Kind::Symbol, "the function's name")?;
        self.word("(")?;
        let arguments = self.list(")", Self::argument)?;
        self.word("->")?;
        self.word("(")?;
        self.list(")", Self::ty)?;
        let attributes = if self.accept("attributes") { self.entries(0)? } else { Vec::new() };
        self.word("{")?;
        let operations = self.operations(0)?;
        Ok(Function { start, name, attributes, body: Region { arguments, operations } })
    }

    /// Operations up to a closing brace.
    fn operations(&mut self, depth: usize) -> Result<Vec<Operation<'t>>> {
        let mut operations = Vec::new();
        while !self.accept("}") {
            operations.push(self.operation(depth)?);
        }
        Ok(operations)
    }

    fn operation(&mut self, depth: usize) -> Result<Operation<'t>> {
        let start = self.peek().start;
        let results = if self.peek().kind == Kind::Value { self.list("=", Self::result)? } else { Vec::new() };
        let name = self.text("an operation's name in quotation marks")?;
        self.word("(")?;
        let operands = self.list(")", |reader| reader.of_kind(Kind::Value, "a value"))?;
        let attributes = if self.accept("<") {
            let entries = self.entries(0)?;
            self.word(">")?;
            entries
        } else {
            Vec::new()
        };
        let regions = if self.accept("(") { self.list(")", |reader| reader.region(depth + 1))? } else { Vec::new() };
        self.word(":")?;
        self.word("(")?;
        // Operands have the types of the values that they name.
        self.list(")", Self::ty)?;
        self.word("->")?;
        let to = if self.accept("(") { self.list(")", Self::ty)? } else { vec![self.ty()?] };
        let named = results.iter().try_fold(0usize, |sum, &(_, count)| sum.checked_add(count));
        if named != Some(to.len()) {
            return Err(lex::error(self.source, start, format_args!("names of {} results, got other names", to.len())));
        }
        Ok(Operation { start, results, name, operands, attributes, regions, to })
    }

    /// `%v1` or `%v1:2`.
    fn result(&mut self) -> Result<(&'t str, usize)> {
        let name = self.of_kind(Kind::Value, "a value")?;
        let count = if self.accept(":") { self.size()? } else { 1 };
        Ok((name, count))
    }

    fn size(&mut self) -> Result<usize> {
        match self.peek().text.parse() {
            Ok(size) => {
                self.at += 1;
                Ok(size)
            }
            Err(_) => Err(self.expected("a number")),
        }
    }

    fn region(&mut self, depth: usize) -> Result<Region<'t>> {
        if depth > DEEPEST {
            return Err(self.expected(&format!("regions at most {DEEPEST} deep")));
        }
        self.word("{")?;
        let arguments = if self.peek().kind == Kind::Label {
            self.at += 1;
            self.word("(")?;
            let arguments = self.list(")", Self::argument)?;
            self.word(":")?;
            arguments
        } else {
            Vec::new()
        };
        Ok(Region { arguments, operations: self.operations(depth)? })
    }

    fn text(&mut self, what: &str) -> Result<String> {
        match (self.peek().kind, unquoted(self.peek().text)) {
            (Kind::Text, Some(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<(String, Value<'t>)>> {
        self.word("{")?;
        self.list("}", |reader| {
            let key = match reader.peek().kind {
                Kind::Text => reader.text("an attribute's name")?,
                _ => reader.of_kind(Kind::Word, "an attribute's name")?.to_string(),
            };
            reader.word("=")?;
            Ok((key, reader.value(depth + 1)?))
        })
    }

    fn value(&mut self, depth: usize) -> Result<Value<'t>> {
        // Nothing that we write is deeper than a dictionary of arrays.
        if depth > 4 {
            return Err(self.expected("an attribute with less nesting"));
        }
        let token = self.peek();
        match token.kind {
            Kind::Text => Ok(Value::Text(self.text("text")?)),
            Kind::Symbol => Ok(Value::Symbol(self.next().text)),
            Kind::Int | Kind::Float | Kind::Hex => self.number(),
            Kind::Attribute => {
                self.at += 1;
                self.word("<")?;
                let mut inside = Vec::new();
                while !self.accept(">") {
                    if self.peek().kind == Kind::End {
                        return Err(self.expected(">"));
                    }
                    inside.push(self.next());
                }
                Ok(Value::Dialect(inside))
            }
            _ => match token.text {
                "{" => Ok(Value::Entries(self.entries(depth)?)),
                "[" => {
                    self.at += 1;
                    Ok(Value::List(self.list("]", |reader| reader.value(depth + 1))?))
                }
                "true" | "false" => Ok(Value::Flag(self.next().text == "true")),
                "array" => self.array(),
                "dense" => self.dense(),
                _ => Err(self.expected("an attribute")),
            },
        }
    }

    /// `1 : i64`, `1.0 : f64`, `0x7FF0000000000000 : f64`.
    fn number(&mut self) -> Result<Value<'t>> {
        let digits = self.next();
        self.word(":")?;
        let value = match (digits.kind, self.peek().text) {
            (Kind::Int, "i64" | "i32") => digits.text.parse().ok().map(Value::Int),
            (Kind::Float, "f64") => digits.text.parse().ok().map(Value::Float),
            (Kind::Hex, "f64") => {
                let bits = digits.text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
                bits.map(|bits| Value::Float(f64::from_bits(bits)))
            }
            _ => None,
        };
        let value = value.ok_or_else(|| self.expected("a number of its type"))?;
        self.at += 1;
        Ok(value)
    }

    /// `array<i64: 1, 2>` or `array<i1: true>`.
    fn array(&mut self) -> Result<Value<'t>> {
        self.word("array")?;
        self.word("<")?;
        let flags = self.accept("i1");
        if !flags {
            self.word("i64")?;
        }
        let items = if self.accept(":") {
            self.list(">", |reader| Ok(reader.next()))?
        } else {
            self.word(">")?;
            Vec::new()
        };
        let parsed = if flags {
            items.iter().map(|item| item.text.parse().ok()).collect::<Option<_>>().map(Value::Flags)
        } else {
            items.iter().map(|item| item.text.parse().ok()).collect::<Option<_>>().map(Value::Ints)
        };
        parsed.ok_or_else(|| self.expected("an array of its element type"))
    }

    /// `dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>`; brackets are compared with the shape when the text is.
    fn dense(&mut self) -> Result<Value<'t>> {
        self.word("dense")?;
        let start = self.peek().start;
        self.word("<")?;
        let content = if self.peek().kind == Kind::Text {
            let text = self.next().text;
            Content::Text(text.trim_matches('"'))
        } else {
            let mut numbers = Vec::new();
            loop {
                let token = self.next();
                match (token.kind, token.text) {
                    (Kind::Int | Kind::Hex | Kind::Float | Kind::Word, _) => numbers.push(token),
                    (Kind::Sign, "[" | "]" | "(" | ")" | ",") => {}
                    (Kind::Sign, ">") => {
                        self.at -= 1;
                        break;
                    }
                    _ => {
                        self.at -= 1;
                        return Err(self.expected("numbers"));
                    }
                }
            }
            Content::Numbers(numbers)
        };
        self.word(">")?;
        self.word(":")?;
        let ty = self.ty()?;
        let shown = ty.to_string();
        literal::read(&content, ty.dtype, ty.shape)
            .map(Value::Dense)
            .ok_or_else(|| lex::error(self.source, start, format_args!("the elements of {shown}, got others")))
    }
}

/// The beginning of a word that may be long.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}
