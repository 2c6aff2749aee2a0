//! Infix operators. They panic where the methods error, with the same message and at the caller's line.
//!
//! Numbers are `f64` or `i64` only: with more types the compiler could not tell what a literal is. The methods take any
//! number.

use super::Tensor;
use crate::Result;
use crate::ir::BinaryOp;

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
                unwrap(Tensor::$name(self, rhs))
            }
        }
        impl std::ops::$trait<Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                unwrap(Tensor::$name(self, &rhs))
            }
        }
        impl std::ops::$trait<&Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                unwrap(Tensor::$name(&self, rhs))
            }
        }
        impl std::ops::$trait<Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                unwrap(Tensor::$name(&self, &rhs))
            }
        }
        numbers!($trait $method $name $op; i64 f64);
    )*};
}

macro_rules! numbers {
    ($trait:ident $method:ident $name:ident $op:ident; $($number:ty)*) => {$(
        impl std::ops::$trait<$number> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: $number) -> Tensor {
                unwrap(Tensor::$name(self, rhs))
            }
        }
        impl std::ops::$trait<$number> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: $number) -> Tensor {
                unwrap(Tensor::$name(&self, rhs))
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
