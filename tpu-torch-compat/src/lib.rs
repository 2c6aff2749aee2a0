//! PyTorch's semantics over the Rust TPU stack.
//!
//! Below this crate nothing promotes dtypes and no tensor is mutable; what PyTorch's users expect beyond that is built here. So
//! far it holds type promotion: the dtype that an operation of several operands computes in.
//!
//! ```
//! use tpu_core::{DType, Tensor};
//! use tpu_torch_compat::result_type;
//! let x = Tensor::from_slice(&[1i32, 2])?;
//! let dtype = result_type(&[(&x).into(), 0.5.into()])?;
//! assert_eq!(dtype, DType::F32);
//! assert_eq!(x.to_dtype(dtype)?.mul(0.5)?.to_vec::<f32>()?, [0.5, 1.0]);
//! # Ok::<(), tpu_core::Error>(())
//! ```

pub mod promotion;

pub use promotion::{Operand, promote_types, result_type};
