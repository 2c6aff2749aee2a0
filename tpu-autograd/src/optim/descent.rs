//! What optimizers that look at one parameter at a time have in common: groups, the count of steps, skipping, state.

use super::Optimizer;
use super::made::{Before, Failed, Made, Updates};
use super::settings::from_zero;
use crate::{Param, no_grad};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tpu_core::{DType, Error, ErrorKind, Result, Tensor, ensure, lazy};

/// How one parameter is updated; the settings are what implements it.
pub trait Rule {
    /// The optimizer's name in errors.
    const NAME: &'static str;

    /// Whether the formulas depend on the number of steps.
    const COUNTS: bool;

    /// What depends on that number alone, and is the same for all parameters that have it.
    type Prepared;

    /// What is kept per parameter, each of its type, by PyTorch's names.
    fn kept(&self) -> &'static [&'static str];

    /// What would be kept of a parameter that was never updated: zeros, if nothing else is said.
    fn initial(&self, grad: &Tensor) -> Result<SmallVec<[Tensor; 2]>> {
        self.kept().iter().map(|_| grad.zeros_like()).collect()
    }

    /// Errors if a setting is out of the range that PyTorch takes, or settings contradict each other.
    fn check(&self) -> Result<()>;

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Changes the learning rate.
    fn set_lr(&mut self, lr: f64);

    /// Called for each number of steps of each group, once per update.
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

/// How often a parameter has been updated: only steps count in which it had a gradient, as in PyTorch.
pub struct Count {
    /// The number, the current step and skipped ones included.
    pub steps: u64,
    /// How many of them were skipped: a scalar float32, once a step could have been.
    pub skipped: Option<Param>,
}

impl Count {
    fn advance(&mut self, skip: Option<&Tensor>) -> Result<()> {
        self.steps += 1;
        if let Some(skip) = skip {
            let one = skip.to_dtype(DType::F32)?;
            match &self.skipped {
                Some(skipped) => skipped.set(skipped.value().add(&one)?)?,
                None => self.skipped = Some(Param::new(one)),
            }
        }
        Ok(())
    }
}

/// An optimizer that applies a rule to each parameter: [`Sgd`](super::Sgd), [`AdamW`](super::AdamW) and the others.
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
    /// Nearly always one: parameters that are updated together share it.
    counts: Vec<Count>,
    /// For each parameter which of the counts is its.
    count_of: Vec<usize>,
    updates: Updates,
}

impl<R: Rule> Descent<R> {
    /// An optimizer of named parameters, as [`named_parameters`](crate::nn::Module::named_parameters) gives them. Errors
    /// without any, unless they are of float dtype, or on settings that PyTorch refuses: a learning rate, a decay, an `eps` or a
    /// momentum that is negative or NaN, betas outside `0..1`, settings that contradict each other.
    ///
    /// ```
    /// use tpu_autograd::Param;
    /// use tpu_autograd::optim::{AdamW, AdamWOptions};
    /// use tpu_core::Tensor;
    /// let params = vec![("w".into(), Param::new(Tensor::from_slice(&[1.0f32])?))];
    /// let error = AdamW::new(params, AdamWOptions { lr: -0.1, ..Default::default() }).err().expect("negative");
    /// assert_eq!(error.message(), "requires lr from 0 on, got -0.1");
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    #[track_caller]
    pub fn new(params: Vec<(String, Param)>, options: R) -> Result<Self> {
        Self::with_groups(vec![Group { params, options }])
    }

    /// An optimizer of groups of parameters, some of which may be empty. Errors as [`new`](Self::new), and if a parameter or a
    /// name is in the groups twice.
    #[track_caller]
    pub fn with_groups(groups: Vec<Group<R>>) -> Result<Self> {
        Tensor::checked(|| Self::of_groups(groups))
    }

    fn of_groups(groups: Vec<Group<R>>) -> Result<Self> {
        ensure!(!groups.is_empty(), Value, R::NAME, "requires at least one group of parameters, got none");
        let counts = vec![Count { steps: 0, skipped: None }];
        let (params, kept, count_of) = (Vec::new(), Vec::new(), Vec::new());
        let updates = Updates::default();
        let mut optimizer = Self { params, groups: Vec::new(), kept, steps: 0, counts, count_of, updates };
        for Group { params, options } in groups {
            options.check()?;
            optimizer.groups.push((params.len(), options));
            optimizer.params.extend(params);
        }
        ensure!(!optimizer.params.is_empty(), Value, R::NAME, "requires at least one parameter, got none");
        let mut names = HashSet::new();
        for (at, (name, param)) in optimizer.params.iter().enumerate() {
            let dtype = param.dtype();
            ensure!(dtype.is_float(), DType, R::NAME, "requires parameters of float dtype, got {dtype} for {name}");
            let again = optimizer.params[..at].iter().any(|(_, other)| other.is(param));
            ensure!(!again && names.insert(name), Value, R::NAME, "requires each parameter once, got {name} twice");
        }
        optimizer.params.iter().try_for_each(|(_, param)| param.realize())?;
        optimizer.kept.resize_with(optimizer.params.len(), || None);
        optimizer.count_of.resize(optimizer.params.len(), 0);
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

    /// For each parameter the names of what is kept.
    fn kept_names(&self) -> impl Iterator<Item = &'static [&'static str]> {
        self.groups.iter().flat_map(|(size, options)| std::iter::repeat_n(options.kept(), *size))
    }

    /// Errors if an update that was due has failed, after going back to what was before it.
    fn settle(&mut self) -> Result<()> {
        let Some(Failed { before, error, told }) = self.updates.settle() else { return Ok(()) };
        error.report();
        // Later updates have failed with it or are about to.
        lazy::synchronize()?;
        self.updates.clear();
        (self.steps, self.count_of) = (before.steps, before.count_of);
        self.counts.truncate(before.counts.len());
        self.counts.iter_mut().zip(before.counts).for_each(|(count, steps)| count.steps = steps);
        for kept in &mut self.kept {
            // Of a parameter whose first update it was.
            if kept.iter().flatten().any(|kept| kept.lost().is_some()) {
                *kept = None;
            }
        }
        for count in &mut self.counts {
            if count.skipped.as_ref().is_some_and(|skipped| skipped.lost().is_some()) {
                count.skipped = None;
            }
        }
        if told {
            return Ok(());
        }
        self.zero_grad();
        Err(error)
    }

    fn before(&self) -> Before {
        let counts = self.counts.iter().map(|count| count.steps).collect();
        Before { steps: self.steps, counts, count_of: self.count_of.clone() }
    }

    /// Counts the step for the parameters that have a gradient.
    fn count_step(&mut self, skip: Option<&Tensor>) -> Result<()> {
        self.steps += 1;
        if !R::COUNTS {
            return Ok(());
        }
        let takes_part: Vec<bool> = self.params.iter().map(|(_, param)| param.grad().is_some()).collect();
        for at in 0..self.counts.len() {
            let (going, staying): (Vec<usize>, Vec<usize>) = (0..self.params.len())
                .filter(|&param| self.count_of[param] == at)
                .partition(|&param| takes_part[param]);
            if going.is_empty() {
                continue;
            }
            let mut count = at;
            if !staying.is_empty() {
                // From here on they differ.
                count = self.counts.len();
                let Count { steps, skipped } = &self.counts[at];
                let skipped = skipped.as_ref().map(|skipped| Param::new(skipped.value()));
                self.counts.push(Count { steps: *steps, skipped });
                going.iter().for_each(|&param| self.count_of[param] = count);
            }
            self.counts[count].advance(skip)?;
        }
        Ok(())
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
        self.settle()?;
        let before = self.before();
        let mut outcomes = Vec::with_capacity(self.params.len());
        no_grad(|| {
            self.count_step(skip)?;
            let mut all = self.params.iter().zip(&mut self.kept).zip(&self.count_of);
            for (size, options) in &self.groups {
                let mut prepared: Vec<Option<R::Prepared>> = Vec::new();
                prepared.resize_with(self.counts.len(), || None);
                for (((_, param), kept), &count) in all.by_ref().take(*size) {
                    let Some(grad) = param.grad() else { continue };
                    let prepared = match &mut prepared[count] {
                        Some(prepared) => prepared,
                        empty => empty.insert(options.prepare(&self.counts[count])?),
                    };
                    let value = param.value();
                    let old: Option<SmallVec<[Tensor; 2]>> =
                        kept.as_ref().map(|kept| kept.iter().map(Param::value).collect());
                    let (next, keep) = options.apply(prepared, &value, &grad, old.as_deref())?;
                    match (kept, old) {
                        (Some(kept), Some(old)) => {
                            for ((param, old), new) in kept.iter().zip(&old).zip(keep) {
                                param.set(unless(skip, old, new)?)?;
                            }
                        }
                        (kept, _) => {
                            let initial = options.initial(&grad)?;
                            let first = |(new, old): (Tensor, &Tensor)| Ok(Param::new(unless(skip, old, new)?));
                            *kept = Some(keep.into_iter().zip(&initial).map(first).collect::<Result<_>>()?);
                        }
                    }
                    param.set(unless(skip, &value, next)?)?;
                    outcomes.extend(param.outcome());
                }
            }
            Ok::<(), Error>(())
        })?;
        if !outcomes.is_empty() {
            self.updates.push(Made { before, outcomes });
        }
        Ok(())
    }

    fn params(&self) -> &[(String, Param)] {
        &self.params
    }

    fn lrs(&self) -> Vec<f64> {
        self.options().map(Rule::lr).collect()
    }

    fn set_lrs(&mut self, lrs: &[f64]) -> Result<()> {
        Tensor::checked(|| {
            let (want, got) = (self.groups.len(), lrs.len());
            ensure!(want == got, Value, R::NAME, "requires one learning rate for each of {want} groups, got {got}");
            lrs.iter().try_for_each(|&lr| from_zero(R::NAME, &[("lr", lr)]))
        })?;
        self.groups.iter_mut().zip(lrs).for_each(|((_, options), &lr)| options.set_lr(lr));
        Ok(())
    }

    fn set_lr(&mut self, lr: f64) -> Result<()> {
        Tensor::checked(|| from_zero(R::NAME, &[("lr", lr)]))?;
        self.groups.iter_mut().for_each(|(_, options)| options.set_lr(lr));
        Ok(())
    }

    fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let failed = self.updates.told();
        let Before { steps, counts, count_of } = failed.as_ref().map_or_else(|| self.before(), |it| it.before.clone());
        let mut state = BTreeMap::from([("step".to_owned(), Tensor::scalar(steps as i64)?)]);
        let each = self.params.iter().zip(&self.kept).zip(&count_of).zip(self.kept_names());
        for ((((name, _), kept), &count), names) in each {
            if failed.is_some() && kept.iter().flatten().any(|kept| kept.lost().is_some()) {
                continue;
            }
            for (suffix, kept) in names.iter().zip(kept.iter().flatten()) {
                state.insert(format!("{name}.{suffix}"), kept.value().detach());
            }
            if R::COUNTS && kept.is_some() {
                state.insert(format!("{name}.step"), Tensor::scalar(counts[count] as i64)?);
                if let Some(skipped) = &self.counts[count].skipped {
                    state.insert(format!("{name}.skipped"), skipped.value().detach());
                }
            }
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        let saved = |name: &str, sizes: &[usize], dtype| saved(R::NAME, state, name, sizes, dtype);
        let number = |name: &str| {
            let found = saved(name, &[], DType::I64)?.item::<i64>()?;
            u64::try_from(found).map_err(|_| {
                Error::new(ErrorKind::Format, R::NAME, format!("requires {name} to be from 0 on, got {found}"))
            })
        };
        // Of another optimizer, or of one with other options, nothing fits.
        let mut known = BTreeSet::from(["step".to_owned()]);
        for ((name, _), names) in self.params.iter().zip(self.kept_names()) {
            let counts: &[&str] = if R::COUNTS { &["step", "skipped"] } else { &[] };
            known.extend(names.iter().chain(counts).map(|suffix| format!("{name}.{suffix}")));
        }
        if let Some(other) = state.keys().find(|&name| !known.contains(name)) {
            let message = format!("requires a state of this optimizer and its options, got one with {other}");
            return Err(Error::new(ErrorKind::Format, R::NAME, message));
        }
        let steps = number("step")?;
        let mut kept = Vec::with_capacity(self.params.len());
        // Skipped steps by value, so that parameters which were updated together share a count again.
        let mut counts: Vec<(u64, Option<f32>)> = vec![(0, None)];
        let mut count_of = Vec::with_capacity(self.params.len());
        for ((name, param), names) in self.params.iter().zip(self.kept_names()) {
            let names: SmallVec<[String; 2]> = names.iter().map(|suffix| format!("{name}.{suffix}")).collect();
            let (shape, dtype) = (param.shape(), param.dtype());
            let find = |name: &String| Ok(Param::new(saved(name, shape.sizes(), dtype)?.clone()));
            if !names.iter().any(|name| state.contains_key(name)) {
                kept.push(None);
                count_of.push(0);
                continue;
            }
            kept.push(Some(names.iter().map(find).collect::<Result<_>>()?));
            let mut count = (0, None);
            if R::COUNTS {
                count.0 = number(&format!("{name}.step"))?;
                let skipped = format!("{name}.skipped");
                if state.contains_key(&skipped) {
                    count.1 = Some(saved(&skipped, &[], DType::F32)?.item::<f32>()?);
                }
            }
            count_of.push(counts.iter().position(|known| *known == count).unwrap_or(counts.len()));
            if count_of[count_of.len() - 1] == counts.len() {
                counts.push(count);
            }
        }
        let count = |(steps, skipped): (u64, Option<f32>)| {
            let skipped = skipped.map(Tensor::scalar).transpose()?.map(Param::new);
            Ok(Count { steps, skipped })
        };
        let counts = counts.into_iter().map(count).collect::<Result<_>>()?;
        (self.steps, self.kept, self.counts, self.count_of) = (steps, kept, counts, count_of);
        self.updates.clear();
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
