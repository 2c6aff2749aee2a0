//! Planning: what is recorded, and what the TPU compiler says of it.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use std::sync::OnceLock;
use tpu_core::ir::{Type, text};
use tpu_core::plan::{Compiler, Plan, Program, table};
use tpu_core::{DType, ErrorKind, Tensor};

fn compiler() -> Option<&'static Compiler> {
    static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
    let open = || pjrt::plugin(pjrt::TPU).map(|path| Compiler::open(path).unwrap());
    COMPILER.get_or_init(open).as_ref()
}

fn plan(compiler: &Compiler, target: &str, program: &Program) -> Plan {
    compiler.target(target).unwrap().plan(program, &mut |_| {}).unwrap()
}

/// `x · y` of square matrices.
fn product(dtype: DType, size: usize) -> Program {
    let ty = Type::new(dtype, [size, size]);
    Program::trace(&[ty.clone(), ty], |x| Ok(vec![x[0].matmul(&x[1])?])).unwrap()
}

#[test]
fn a_function_is_one_program_with_the_lines_of_its_operations() {
    let types = [Type::new(DType::F32, [4]), Type::new(DType::F32, [4])];
    let line = line!() + 1;
    let program = Program::trace(&types, |x| Ok(vec![(&x[0] + &x[1]).tanh()?, x[0].exp()?])).unwrap();
    let place = format!("loc(\"add\"(\"{}\":{line}:1))", file!());
    assert!(program.text().contains(&place), "{}", program.text());
    // Less what stands behind the operations, it is the text of the graph, which reads back.
    let plain: Vec<&str> = program.text().lines().map(|line| line.split(" loc(").next().unwrap()).collect();
    let graph = text::parse(&plain.join("\n")).unwrap();
    assert_eq!(
        graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>(),
        ["parameter", "parameter", "add", "tanh", "exponential"]
    );
}

#[test]
fn scopes_stand_in_the_names_and_blocks_have_the_place_of_their_owner() {
    let mut line = 0;
    let sum = |x: &[Tensor]| {
        tpu_core::lazy::scope("block", || {
            line = line!() + 1;
            Ok(vec![x[0].cumsum(0)?])
        })
    };
    let program = Program::trace(&[Type::new(DType::F32, [4])], sum).unwrap();
    let text = program.text();
    let places: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(" loc(")?.1)).collect();
    assert!(places.len() > 1, "a cumulative sum has a decomposition: {text}");
    let here = format!("(\"{}\":{line}:1))", file!());
    assert!(places.iter().all(|place| place.starts_with("\"block/") && place.ends_with(&here)), "{text}");
}

#[test]
fn a_loop_is_recorded_once_its_steps_are_alike() {
    let mut steps = 0;
    let programs = Program::record(
        || Ok((Tensor::zeros([8, 8], DType::F32)?, None::<Tensor>)),
        |(weights, momentum)| {
            steps += 1;
            // The first step makes what later ones find.
            let old = match momentum.take() {
                Some(old) => old,
                None => Tensor::zeros([8, 8], DType::F32)?,
            };
            let new = (old * 0.9 + weights.tanh()?) * f64::from(steps);
            *weights = &*weights - &new;
            *momentum = Some(new);
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(programs.len(), 1);
    // Two matrices go in and come out, and are given away.
    let head = programs[0].text().lines().nth(1).unwrap();
    assert_eq!(head.matches("tensor<8x8xf32> {jax.buffer_donor = true}").count(), 2, "{head}");
    assert!(head.contains("-> (tensor<8x8xf32>, tensor<8x8xf32>)"), "{head}");
}

#[test]
fn reading_and_foreign_tensors_are_errors_while_planning() {
    let x = Type::new(DType::F32, [4]);
    let error =
        Program::trace(std::slice::from_ref(&x), |x| x[0].exp()?.to_vec::<f32>().map(|_| Vec::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let outside = Tensor::from_slice(&[1.0f32; 4]).unwrap();
    let error = Program::trace(std::slice::from_ref(&x), |x| Ok(vec![x[0].add(&outside)?])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    let error = Program::trace(std::slice::from_ref(&x), |x| Ok(vec![x[0].clone()])).unwrap_err();
    assert!(error.message().contains("got 0"), "{error}");
    // Nothing is left behind.
    assert!(Program::trace(&[x], |x| Ok(vec![x[0].exp()?])).is_ok());
    assert_eq!(outside.to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn a_product_takes_the_operations_and_bytes_that_arithmetic_says() {
    let Some(compiler) = compiler() else { return };
    let plans =
        ["v4:2x2x1", "v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"].map(|name| plan(compiler, name, &product(DType::BF16, 4096)));
    for plan in &plans {
        let figures = plan.outcome.as_ref().unwrap();
        assert_eq!(figures.flops, 2.0 * 4096f64.powi(3), "{plan}");
        let matrix = 2 * 4096 * 4096;
        assert_eq!((figures.memory.arguments, figures.memory.outputs), (2 * matrix, matrix), "{plan}");
        assert!(figures.memory.peak >= 3 * matrix && Some(figures.memory.peak) < plan.device_memory, "{plan}");
        // A matrix unit cannot do more than its peak; the compiler's model of one large product comes close to it.
        let share = figures.share_of_peak(&plan.chip.unwrap()).unwrap();
        assert!((0.5..=1.0).contains(&share), "{plan}");
        let place = &figures.estimate.operations[0].places[0];
        assert!(place.file.ends_with("tests/plan.rs"), "{plan}");
        let json = plan.to_json();
        assert_eq!(json["outcome"]["compiled"]["memory"]["arguments"], 2 * matrix);
        assert_eq!(json["outcome"]["compiled"]["estimate"]["operations"][0]["places"][0]["line"], place.line);
        assert!(!figures.serialize().unwrap().is_empty());
    }
    assert_eq!(table(&plans).lines().count(), 2 + plans.len());
}

#[test]
fn what_does_not_fit_says_what_it_needs() {
    let Some(compiler) = compiler() else { return };
    // Three matrices of 8 GiB on 15.75 GiB.
    let plan = plan(compiler, "v5e:1x1", &product(DType::BF16, 1 << 16));
    let refusal = plan.outcome.as_ref().unwrap_err();
    assert!(refusal.is_out_of_memory(), "{plan}");
    let gibibytes = |bytes: Option<u64>| bytes.unwrap() as f64 / (1u64 << 30) as f64;
    assert!((24.0..24.1).contains(&gibibytes(refusal.needed)), "{refusal:?}");
    assert_eq!(gibibytes(refusal.available), 15.75, "{refusal:?}");
    assert_eq!(plan.to_json()["outcome"]["refused"]["out_of_memory"], true);
}

#[test]
fn what_the_compiler_does_not_take_is_a_plan_and_no_end_of_the_process() {
    let Some(compiler) = compiler() else { return };
    let bad = [
        ("nonsense", "error"),
        ("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }", "known or have a bound"),
        ("func.func @main(%x: tensor<*xf32>) { return }", "known rank"),
    ];
    for (text, why) in bad {
        let plan = plan(compiler, "v5e:1x1", &Program::from_text(text));
        let refusal = plan.outcome.as_ref().unwrap_err();
        assert!(!refusal.is_out_of_memory() && refusal.error.to_string().contains(why), "{refusal:?}");
    }
    assert_eq!(compiler.target("v99:1x1").unwrap_err().kind(), ErrorKind::Value);
}

#[test]
fn operations_of_a_text_without_places_have_its_lines() {
    let Some(compiler) = compiler() else { return };
    let text = "module {
      func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
        %y = stablehlo.exponential %x : tensor<1024x1024xf32>
        return %y : tensor<1024x1024xf32>
      }
    }";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exponential.mlir");
    std::fs::write(&file, text).unwrap();
    let plan = plan(compiler, "v5e:1x1", &Program::from_file(&file).unwrap());
    let figures = plan.outcome.as_ref().unwrap();
    let place = &figures.estimate.operations[0].places[0];
    assert_eq!((place.file.as_str(), place.line), (file.to_str().unwrap(), 3), "{plan}");
}

#[test]
fn files_that_are_no_text_of_stablehlo_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.mlir");
    let of = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Program::from_file(&file)
    };
    for (bytes, what) in
        [(&b"ML\xefR\x01"[..], "MLIR bytecode"), (b"HloModule f\n", "HLO"), (b"\xff\xfe", "bytes that are no text")]
    {
        let error = of(bytes).unwrap_err();
        assert!(error.kind() == ErrorKind::Format && error.message().contains(what), "{error}");
    }
    assert!(of(b"module {}").is_ok());
    assert_eq!(Program::from_file(folder.path().join("none")).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn an_unknown_topology_is_an_error_that_names_known_ones() {
    let Some(compiler) = compiler() else { return };
    for name in ["v99:1x1", "v5litepod-4", "", "v5e"] {
        let error = compiler.target(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Value, "{error}");
        assert!(error.message().contains("v5e:1x1, v5p:1x1x1") && error.message().contains(name), "{error}");
    }
}

#[test]
fn a_loop_that_counts_is_as_long_as_it_counts_to() {
    let Some(compiler) = compiler() else { return };
    // As JAX writes `lax.scan(lambda x, i: (tanh(x @ x) * i, sum(x)), x, arange(7.0))`, less its function for the body.
    let text = "module {
      func.func @main(%x: tensor<128x128xf32>) -> (tensor<128x128xf32>, tensor<7xf32>) {
        %i = stablehlo.iota dim = 0 : tensor<7xf32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %sums = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<7xf32>
        %c = stablehlo.constant dense<0> : tensor<i32>
        %0:4 = stablehlo.while(%xs = %i, %at = %c, %a = %x, %out = %sums) : tensor<7xf32>, tensor<i32>, tensor<128x128xf32>, tensor<7xf32>
        cond {
          %n = stablehlo.constant dense<7> : tensor<i32>
          %1 = stablehlo.compare LT, %at, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
        } do {
          %1 = stablehlo.dynamic_slice %xs, %at, sizes = [1] : (tensor<7xf32>, tensor<i32>) -> tensor<1xf32>
          %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
          %3 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
          %4 = stablehlo.tanh %3 : tensor<128x128xf32>
          %5 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<128x128xf32>
          %6 = stablehlo.multiply %4, %5 : tensor<128x128xf32>
          %7 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<128x128xf32>, tensor<f32>) -> tensor<f32>
          %8 = stablehlo.reshape %7 : (tensor<f32>) -> tensor<1xf32>
          %9 = stablehlo.dynamic_update_slice %out, %8, %at : (tensor<7xf32>, tensor<1xf32>, tensor<i32>) -> tensor<7xf32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %10 = stablehlo.add %at, %one : tensor<i32>
          stablehlo.return %xs, %10, %6, %9 : tensor<7xf32>, tensor<i32>, tensor<128x128xf32>, tensor<7xf32>
        }
        return %0#2, %0#3 : tensor<128x128xf32>, tensor<7xf32>
      }
    }";
    for target in ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"] {
        let plan = plan(compiler, target, &Program::from_text(text));
        let estimate = &plan.outcome.as_ref().unwrap().estimate;
        assert_eq!(estimate.unbounded_loops, 0, "{plan}");
        assert!(estimate.operations.iter().any(|operation| operation.runs == 7), "{plan}");
    }
}

#[test]
fn the_largest_batch_is_found() {
    let Some(compiler) = compiler() else { return };
    let target = compiler.target("v5e:1x1").unwrap();
    let search = tpu_core::plan::Search { start: 1, tolerance: 0.02, ..Default::default() };
    // A row is a matrix of 32 MiB, and as much comes out: 15.75 GiB hold 252 of each less what the program takes.
    let rows = |batch: usize| {
        let x = Type::new(DType::BF16, [batch, 4096, 4096]);
        Program::trace(&[x], |x| Ok(vec![x[0].exp()?]))
    };
    let mut batches = Vec::new();
    let found = target.largest_batch(search, rows, &mut |at| batches.push(at.batch)).unwrap();
    let (batch, plan) = found.fits.as_ref().unwrap();
    assert!((230..=252).contains(batch), "{found}\n{plan}");
    assert!(found.too_large.unwrap() <= batch + batch / 50 + 1, "{found}");
    assert!(found.compilations <= 8, "{found}");
}
