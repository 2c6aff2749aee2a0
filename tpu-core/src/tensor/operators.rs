//! Infix operators. They panic where the methods error, with the same message and at the caller's line.

use super::Tensor;
use crate::ir::BinaryOp;
use crate::{Complex64, Result};
use half::{bf16, f16};

#[track_caller]
fn unwrap(result: Result<Tensor>) -> Tensor {
    match result {
        Ok(tensor) => tensor,
        Err(error) => panic!("{error}"),
    }
}

macro_rules! infix {
    ($($trait:ident $method:ident $name:ident $op:ident;)*) => {$(
        impl std::ops::$trait<&Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                unwrap(self.$name(rhs))
            }
        }
        impl std::ops::$trait<Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                unwrap(self.$name(&rhs))
            }
        }
        impl std::ops::$trait<&Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                unwrap(self.$name(rhs))
            }
        }
        impl std::ops::$trait<Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                unwrap(self.$name(&rhs))
            }
        }
        numbers!($trait $method $name $op; bool u8 u16 u32 u64 i8 i16 i32 i64 usize isize f16 bf16 f32 f64 Complex64);
    )*};
}

macro_rules! numbers {
    ($trait:ident $method:ident $name:ident $op:ident; $($number:ty)*) => {$(
        impl std::ops::$trait<$number> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: $number) -> Tensor {
                unwrap(self.$name(rhs))
            }
        }
        impl std::ops::$trait<$number> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: $number) -> Tensor {
                unwrap(self.$name(rhs))
            }
        }
        impl std::ops::$trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                unwrap(Tensor::binary_number(BinaryOp::$op, self.into(), rhs))
            }
        }
        impl std::ops::$trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                unwrap(Tensor::binary_number(BinaryOp::$op, self.into(), &rhs))
            }
        }
    )*};
}

infix! {
    Add add add Add;
    Sub sub sub Subtract;
    Mul mul mul Multiply;
    Div div div Divide;
    Rem rem rem Remainder;
}

macro_rules! prefix {
    ($($trait:ident $method:ident $name:ident;)*) => {$(
        impl std::ops::$trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                unwrap(Tensor::$name(self))
            }
        }
        impl std::ops::$trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                unwrap(Tensor::$name(&self))
            }
        }
    )*};
}

prefix! {
    Neg neg neg;
    Not not not;
}
