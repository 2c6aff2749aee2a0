//! Operations across devices, on simulated replicas.
//!
//! The differentiated function is the sum of all replicas' results. Here each replica ends with the same loss, a function of
//! data that all have: n replicas make n times that loss, and a gradient on each of only what it used itself. A sum over the
//! replicas, divided by n, put between the data and its use, leaves the data as it is and makes up for both.

use crate::differences::{Given, check, given};
use crate::replicas::on_replicas;
use smallvec::smallvec;
use std::sync::Arc;
use tpu_core::ir::{Op, Reducer, ReplicaGroups};
use tpu_core::{DType, Result, Tensor};

fn one(op: Op, x: &Tensor) -> Result<Tensor> {
    Ok(Tensor::record(op, &[x.into()])?.swap_remove(0))
}

fn everyone(count: u32) -> Arc<ReplicaGroups> {
    Arc::new(ReplicaGroups { groups: vec![(0..count).collect()], channel: 0 })
}

/// Checks an operation on four replicas, each with its own row of the data, whose results are joined.
fn check_on_four(name: &str, data: Given, op: &Op) {
    let collective = |x: &[Tensor]| {
        let sum = one(Op::AllReduce { kind: Reducer::Sum, groups: everyone(4) }, &x[0])?;
        let data = sum.mul(0.25)?;
        let replica = Tensor::record(Op::ReplicaId, &[])?.swap_remove(0).to_dtype(DType::I64)?;
        let mut start = vec![Tensor::scalar(0i64)?; data.rank()];
        start[0] = replica;
        let start: Vec<_> = start.iter().map(Into::into).collect();
        let mut sizes = data.sizes().to_vec();
        sizes[0] = 1;
        let own = data.dynamic_slice(&start, &sizes)?.squeeze(0)?;
        let result = one(op.clone(), &own.square()?)?.square()?;
        Ok(vec![one(Op::AllGather { axis: 0, groups: everyone(4) }, &result.unsqueeze(0)?)?])
    };
    on_replicas(4, || check(name, 2, &[data], 5, &collective).unwrap());
}

const KINDS: [Reducer; 4] = [Reducer::Sum, Reducer::Product, Reducer::Max, Reducer::Min];

/// All, and two groups whose members are in no order.
fn groupings() -> [Arc<ReplicaGroups>; 2] {
    let pairs = ReplicaGroups { groups: vec![smallvec![0, 2], smallvec![3, 1]], channel: 0 };
    [everyone(4), Arc::new(pairs)]
}

#[test]
fn reductions_over_replicas() {
    for groups in groupings() {
        for kind in KINDS {
            check_on_four("all_reduce", given(&[4, 2], 0.4, 1.0), &Op::AllReduce { kind, groups: groups.clone() });
            let op = Op::ReduceScatter { kind, axis: 1, groups: groups.clone() };
            check_on_four("reduce_scatter", given(&[4, 2, 4], 0.4, 1.0), &op);
        }
    }
}

#[test]
fn exchanges_between_replicas() {
    for groups in groupings() {
        let op = Op::AllGather { axis: 1, groups: groups.clone() };
        check_on_four("all_gather", given(&[4, 2, 1], -1.0, 1.0), &op);
        for (split_axis, concat_axis) in [(0, 1), (1, 0), (0, 0)] {
            let op = Op::AllToAll { split_axis, concat_axis, groups: groups.clone() };
            check_on_four("all_to_all", given(&[4, 4, 4], -1.0, 1.0), &op);
        }
    }
    // Replica 2 sends nothing, replica 0 gets nothing.
    let op = Op::CollectivePermute { pairs: Arc::new([(0, 1), (1, 3), (3, 2)]), channel: 0 };
    check_on_four("collective_permute", given(&[4, 2], -1.0, 1.0), &op);
}

#[test]
fn replicas_share_the_gradient_of_an_extreme_that_all_have() {
    on_replicas(4, || {
        let x = tpu_autograd::requires_grad(&Tensor::from_slice(&[3.0f64]).unwrap()).unwrap();
        let y = one(Op::AllReduce { kind: Reducer::Max, groups: everyone(4) }, &x).unwrap();
        // Four results of 3, each of which would have the gradient one, among four operands.
        let gradient = tpu_autograd::grad(&[&y], &[&x], Default::default()).unwrap();
        assert_eq!(gradient[0].to_vec::<f64>().unwrap(), [1.0]);
    });
}
