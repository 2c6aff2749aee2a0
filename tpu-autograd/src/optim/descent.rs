//! What optimizers that look at one parameter at a time have in common: groups, the count of steps, skipping, state.

use super::Optimizer;
use crate::{Param, no_grad};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashSet};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor, ensure};

/// How one parameter is updated; the settings are what implements it.
pub trait Rule {
    /// The optimizer's name in errors.
    const NAME: &'static str;

    /// What is kept per parameter, each of its type, by PyTorch's names.
    const KEPT: &'static [&'static str];

    /// What depends on the count of steps alone, and is the same for all parameters.
    type Prepared;

    /// Errors if the settings contradict each other.
    fn check(&self) -> Result<()>;

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Changes the learning rate.
    fn set_lr(&mut self, lr: f64);

    /// Called once for each group and update.
    fn prepare(&self, count: &Count) -> Result<Self::Prepared>;

    /// The next value of a parameter and of what is kept of it. `kept` is `None` in its first update.
    fn apply(
        &self,
        prepared: &Self::Prepared,
        value: &Tensor,
        grad: &Tensor,
        kept: Option<&[Tensor]>,
    ) -> Result<(Tensor, SmallVec<[Tensor; 2]>)>;
}

/// Parameters that share settings.
pub struct Group<R> {
    /// The parameters with their names.
    pub params: Vec<(String, Param)>,
    /// Their settings.
    pub options: R,
}

/// The current step.
pub struct Count {
    /// The number, skipped steps included.
    pub steps: u64,
    /// How many of them were skipped: a scalar float32, once a step could have been.
    pub skipped: Option<Tensor>,
}

/// An optimizer that applies a rule to each parameter: [`Sgd`](super::Sgd), [`AdamW`](super::AdamW).
///
/// Groups have settings of their own. Here biases and norms, which have one axis, do not decay:
///
/// ```
/// use tpu_autograd::nn::{Linear, Module};
/// use tpu_autograd::optim::{AdamW, AdamWOptions, Group, Optimizer};
/// use tpu_core::DType;
/// let model = Linear::new(4, 2, true, DType::F32, &tpu_ops::Generator::new(0))?;
/// let (matrices, rest) = model.named_parameters().into_iter().partition(|(_, param)| param.shape().rank() > 1);
/// let options = AdamWOptions::default();
/// let optimizer = AdamW::with_groups(vec![
///     Group { params: matrices, options },
///     Group { params: rest, options: AdamWOptions { weight_decay: 0.0, ..options } },
/// ])?;
/// assert_eq!(optimizer.lrs(), [1e-3, 1e-3]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub struct Descent<R> {
    params: Vec<(String, Param)>,
    /// Number of parameters and settings of each group, whose parameters follow each other.
    groups: Vec<(usize, R)>,
    /// For each parameter what the rule keeps, from its first update on.
    kept: Vec<Option<SmallVec<[Param; 2]>>>,
    steps: u64,
    skipped: Option<Param>,
}

impl<R: Rule> Descent<R> {
    /// An optimizer of named parameters, as [`named_parameters`](crate::nn::Module::named_parameters) gives them. Errors
    /// unless they are of float dtype, or if the settings contradict each other.
    pub fn new(params: Vec<(String, Param)>, options: R) -> Result<Self> {
        Self::with_groups(vec![Group { params, options }])
    }

    /// An optimizer of groups of parameters. Errors as [`new`](Self::new), and without a group, or if a parameter or a name is in
    /// the groups twice.
    pub fn with_groups(groups: Vec<Group<R>>) -> Result<Self> {
        ensure!(!groups.is_empty(), Value, R::NAME, "requires at least one group of parameters, got none");
        let mut optimizer = Self { params: Vec::new(), groups: Vec::new(), kept: Vec::new(), steps: 0, skipped: None };
        for Group { params, options } in groups {
            options.check()?;
            optimizer.groups.push((params.len(), options));
            optimizer.params.extend(params);
        }
        let mut names = HashSet::new();
        for (at, (name, param)) in optimizer.params.iter().enumerate() {
            let dtype = param.dtype();
            ensure!(dtype.is_float(), DType, R::NAME, "requires parameters of float dtype, got {dtype} for {name}");
            let again = optimizer.params[..at].iter().any(|(_, other)| other.is(param));
            ensure!(!again && names.insert(name), Value, R::NAME, "requires each parameter once, got {name} twice");
        }
        optimizer.kept.resize_with(optimizer.params.len(), || None);
        Ok(optimizer)
    }

    /// Number of steps, skipped ones included.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The settings of each group.
    pub fn options(&self) -> impl ExactSizeIterator<Item = &R> {
        self.groups.iter().map(|(_, options)| options)
    }

    fn count_step(&mut self, skip: Option<&Tensor>) -> Result<Count> {
        self.steps += 1;
        if let Some(skip) = skip {
            let one = skip.to_dtype(DType::F32)?;
            match &self.skipped {
                Some(skipped) => skipped.set(skipped.value().add(&one)?)?,
                None => self.skipped = Some(Param::new(one)),
            }
        }
        Ok(Count { steps: self.steps, skipped: self.skipped.as_ref().map(Param::value) })
    }
}

/// `new`, or `old` where the scalar bool `skip` is true.
fn unless(skip: Option<&Tensor>, old: &Tensor, new: Tensor) -> Result<Tensor> {
    match skip {
        Some(skip) => skip.select(old, &new),
        None => Ok(new),
    }
}

impl<R: Rule> Optimizer for Descent<R> {
    fn update(&mut self, skip: Option<&Tensor>) -> Result<()> {
        no_grad(|| {
            let count = self.count_step(skip)?;
            let mut all = self.params.iter().zip(&mut self.kept);
            for (size, options) in &self.groups {
                let prepared = options.prepare(&count)?;
                for ((_, param), kept) in all.by_ref().take(*size) {
                    let Some(grad) = param.grad() else { continue };
                    let value = param.value();
                    let old: Option<SmallVec<[Tensor; 2]>> =
                        kept.as_ref().map(|kept| kept.iter().map(Param::value).collect());
                    let (next, keep) = options.apply(&prepared, &value, &grad, old.as_deref())?;
                    match (kept, old) {
                        (Some(kept), Some(old)) => {
                            for ((param, old), new) in kept.iter().zip(&old).zip(keep) {
                                param.set(unless(skip, old, new)?)?;
                            }
                        }
                        (kept, _) => {
                            // A skipped first step leaves zeros.
                            let first = |new: Tensor| Ok(Param::new(unless(skip, &grad.zeros_like()?, new)?));
                            *kept = Some(keep.into_iter().map(first).collect::<Result<_>>()?);
                        }
                    }
                    param.set(unless(skip, &value, next)?)?;
                }
            }
            Ok(())
        })
    }

    fn params(&self) -> &[(String, Param)] {
        &self.params
    }

    fn lrs(&self) -> Vec<f64> {
        self.options().map(Rule::lr).collect()
    }

    fn set_lrs(&mut self, lrs: &[f64]) -> Result<()> {
        let (want, got) = (self.groups.len(), lrs.len());
        ensure!(want == got, Value, R::NAME, "requires one learning rate for each of {want} groups, got {got}");
        self.groups.iter_mut().zip(lrs).for_each(|((_, options), &lr)| options.set_lr(lr));
        Ok(())
    }

    fn set_lr(&mut self, lr: f64) {
        self.groups.iter_mut().for_each(|(_, options)| options.set_lr(lr));
    }

    fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut state = BTreeMap::from([("step".to_owned(), Tensor::scalar(self.steps as i64)?)]);
        if let Some(skipped) = &self.skipped {
            state.insert("skipped".into(), skipped.value().detach());
        }
        for ((name, _), kept) in self.params.iter().zip(&self.kept) {
            for (suffix, kept) in R::KEPT.iter().zip(kept.iter().flatten()) {
                state.insert(format!("{name}.{suffix}"), kept.value().detach());
            }
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let saved = |name: &str, sizes: &[usize], dtype| saved(R::NAME, state, name, sizes, dtype);
        let steps = saved("step", &[], DType::I64)?.item::<i64>()?;
        let steps = u64::try_from(steps).map_err(|_| {
            Error::new(ErrorKind::Format, R::NAME, format!("requires a step count from 0 on, got {steps}"))
        })?;
        let skipped = match state.contains_key("skipped") {
            true => Some(Param::new(saved("skipped", &[], DType::F32)?.clone())),
            false => None,
        };
        let mut kept = Vec::with_capacity(self.params.len());
        for (name, param) in &self.params {
            let names: SmallVec<[String; 2]> = R::KEPT.iter().map(|suffix| format!("{name}.{suffix}")).collect();
            let (shape, dtype) = (param.shape(), param.dtype());
            let find = |name: &String| Ok(Param::new(saved(name, shape.sizes(), dtype)?.clone()));
            kept.push(match names.iter().any(|name| state.contains_key(name)) {
                true => Some(names.iter().map(find).collect::<Result<_>>()?),
                false => None,
            });
        }
        (self.steps, self.skipped, self.kept) = (steps, skipped, kept);
        Ok(())
    }
}

/// A tensor of a saved state, of the given type.
fn saved<'a>(
    op: &'static str,
    state: &'a BTreeMap<String, Tensor>,
    name: &str,
    sizes: &[usize],
    dtype: DType,
) -> Result<&'a Tensor> {
    let tensor = state
        .get(name)
        .ok_or_else(|| Error::new(ErrorKind::Format, op, format!("requires a state that has {name}, got none")))?;
    ensure!(
        tensor.sizes() == sizes && tensor.dtype() == dtype,
        Format,
        op,
        "requires {name} to be of {dtype} and sizes {sizes:?}, got {}",
        tensor.ty()
    );
    Ok(tensor)
}
