//! Stand-in that runs node by node; to be deleted by the commit that brings the real `Host`.
use super::kernels::{self, Operand, Target};
use crate::ir::{Graph, Op, Type};
use crate::runtime::*;
#[derive(Debug)]
/// The embedded backend.
pub struct Host;
#[derive(Debug)]
pub struct B(Type, Vec<u64>, usize);
impl B {
    fn new(ty: &Type) -> Result<Self> {
        let n = ty.bytes().ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "alloc", "too large"))?;
        if n > (8 << 30) {
            return Err(Error::new(ErrorKind::OutOfMemory, "alloc", "too large"));
        };
        Ok(B(ty.clone(), vec![0; n.div_ceil(8)], n))
    }
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.1)[..self.2]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.1)[..self.2]
    }
}
impl Buffer for B {
    fn ty(&self) -> &Type {
        &self.0
    }
    fn read(&self, t: &mut [u8]) -> Result<()> {
        t.copy_from_slice(self.bytes());
        Ok(())
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
impl Host {
    /// From the environment.
    pub fn from_env() -> Result<Self> {
        Ok(Host)
    }
}
#[derive(Debug)]
struct E(Graph);
impl Backend for Host {
    fn name(&self) -> &str {
        "host"
    }
    fn device_count(&self) -> usize {
        1
    }
    fn generic_in_sizes(&self) -> bool {
        true
    }
    fn supports(&self, op: &Op) -> Result<()> {
        if matches!(op, Op::Composite { .. }) {
            return Ok(());
        }
        kernels::supports(op)
    }
    fn compile(&self, g: &Graph, _: CompileOptions) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(E(g.clone())))
    }
    fn upload(&self, _: usize, ty: &Type, b: &[u8]) -> Result<Arc<dyn Buffer>> {
        let mut x = B::new(ty)?;
        x.bytes_mut().copy_from_slice(b);
        Ok(Arc::new(x))
    }
    fn memory(&self, _: usize) -> MemoryStats {
        Default::default()
    }
    fn reset_peak_memory(&self, _: usize) {}
}
fn go(g: &Graph, block: crate::ir::BlockId, args: Vec<Arc<B>>, extra: &[crate::ir::Value]) -> Result<Vec<Arc<B>>> {
    let mut vals: std::collections::HashMap<crate::ir::Value, Arc<B>> = Default::default();
    for &id in &g[block].nodes {
        let n = &g[id];
        let ops: Vec<Arc<B>> = n.operands.iter().map(|v| vals[v].clone()).collect();
        let res: Vec<Arc<B>> = match &n.op {
            Op::Parameter { index, .. } => vec![args[*index].clone()],
            Op::Composite { body, .. } => go(g, *body, ops, &[])?,
            op => {
                let mut r = n.types.iter().map(B::new).collect::<Result<Vec<_>>>()?;
                {
                    let o: Vec<Operand> = ops.iter().map(|b| Operand { ty: &b.0, bytes: b.bytes() }).collect();
                    let mut t: Vec<Target> = r
                        .iter_mut()
                        .map(|b| {
                            let ty = b.0.clone();
                            let ty: &'static Type = Box::leak(Box::new(ty));
                            Target { ty, bytes: b.bytes_mut() }
                        })
                        .collect();
                    kernels::run(op, &o, &mut t)?;
                }
                r.into_iter().map(Arc::new).collect()
            }
        };
        for (i, r) in res.into_iter().enumerate() {
            vals.insert(crate::ir::Value { node: id, result: i as u32 }, r);
        }
    }
    Ok(g[block].results.iter().chain(extra).map(|v| vals[v].clone()).collect())
}
impl Executable for E {
    fn run(&self, _: usize, a: &mut [Argument]) -> Result<Outcome> {
        let g = &self.0;
        let args: Vec<Arc<B>> = a
            .iter()
            .zip(g.parameter_types(g.main()))
            .map(|(a, ty)| match a {
                Argument::Shared(b) | Argument::Donated(b) => b.clone().into_any().downcast::<B>().unwrap(),
                Argument::Scalar(s) => {
                    let mut b = B::new(ty).unwrap();
                    b.bytes_mut().copy_from_slice(s.as_slice());
                    Arc::new(b)
                }
                Argument::Taken => panic!(),
            })
            .collect();
        let extra: Vec<_> = g.checks.iter().map(|c| c.value).collect();
        let mut r = go(g, g.main(), args, &extra)?;
        let c = r.split_off(g[g.main()].results.len());
        let checks: Vec<i32> = c.iter().map(|b| i32::from_le_bytes(b.bytes()[..4].try_into().unwrap())).collect();
        if checks.iter().all(|c| *c < 0) {
            for x in a.iter_mut() {
                if matches!(x, Argument::Donated(_)) {
                    *x = Argument::Taken;
                }
            }
        }
        Ok(Outcome { results: r.into_iter().map(|b| b as Arc<dyn Buffer>).collect(), checks })
    }
    fn resize(&self, g: &Graph) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(E(g.clone())))
    }
    fn cost(&self) -> Cost {
        Cost::default()
    }
    fn kernels(&self) -> Vec<KernelInfo> {
        vec![]
    }
}
