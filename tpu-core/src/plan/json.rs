//! Plans as JSON, for other programs. Names are the fields'; sizes are bytes, times seconds.

use super::{Batch, Estimate, Figures, Memory, Operation, Place, Plan, Refusal};
use serde_json::{Value, json};

impl Plan {
    /// The plan as JSON.
    ///
    /// | field | what it is |
    /// |---|---|
    /// | `target` | the topology's name |
    /// | `device_kind`, `devices` | what the compiler calls a device, and how many the topology has |
    /// | `used` | on how many of them the program runs; all figures are those of one of them |
    /// | `device_memory` | bytes of a device's memory that programs may use, null if the compiler does not say |
    /// | `peak_flops_per_second`, `clock` | of the device: bf16 operations and cycles per second, null if it is not known here |
    /// | `compile_seconds` | how long compiling took on this machine |
    /// | `outcome.refused` | `reason`; `out_of_memory` with `needed` and `available` bytes, null if the compiler does not say |
    /// | `outcome.compiled.flops`, `bytes` | operations, and bytes read and written, as the compiler counts them |
    /// | `….memory` | bytes: `arguments`, `outputs`, of which `aliased` in memory of arguments, `temporaries`, `code`, `peak`; `allocated` or null |
    /// | `….estimate` | `seconds` or null, `cycles`; of the seconds, `unmodelled_seconds` for `unmodelled` operations that the compiler has no figure for; `collectives` of them are among devices, whose links are in no figure; `unbounded_loops` that are counted once |
    /// | `….estimate.operations` | the most expensive: `name`, `cycles`, `runs`, `places` with `name`, `file` and `line` |
    /// | `….share_of_peak` | from 0 to 1 by the estimate, null without one |
    ///
    /// `outcome` holds either `compiled` or `refused`.
    ///
    /// ```no_run
    /// # fn show(plan: &tpu_core::plan::Plan) {
    /// let json = plan.to_json();
    /// let seconds = json["outcome"]["compiled"]["estimate"]["seconds"].as_f64();
    /// # let _ = seconds;
    /// # }
    /// ```
    pub fn to_json(&self) -> Value {
        json!({
            "target": self.target,
            "device_kind": self.device_kind,
            "devices": self.devices,
            "used": self.used,
            "device_memory": self.device_memory,
            "peak_flops_per_second": self.chip.map(|chip| chip.flops_per_second),
            "clock": self.chip.map(|chip| chip.clock()),
            "compile_seconds": self.compile_time.as_secs_f64(),
            "outcome": match &self.outcome {
                Ok(figures) => json!({ "compiled": self.figures(figures) }),
                Err(refusal) => json!({ "refused": refused(refusal) }),
            },
        })
    }

    fn figures(&self, figures: &Figures) -> Value {
        json!({
            "flops": figures.flops,
            "bytes": figures.bytes,
            "memory": memory(&figures.memory),
            "estimate": estimate(&figures.estimate),
            "share_of_peak": self.chip.and_then(|chip| figures.share_of_peak(&chip)),
        })
    }
}

impl Batch {
    /// What was found as JSON: `fits` and `too_large` are batches or null, `plan` is that of the batch that fits.
    pub fn to_json(&self) -> Value {
        json!({
            "fits": self.fits.as_ref().map(|(batch, _)| batch),
            "too_large": self.too_large,
            "compilations": self.compilations,
            "plan": self.fits.as_ref().map(|(_, plan)| plan.to_json()),
        })
    }
}

fn refused(refusal: &Refusal) -> Value {
    json!({
        "out_of_memory": refusal.is_out_of_memory(),
        "needed": refusal.needed,
        "available": refusal.available,
        "reason": refusal.error.message(),
    })
}

fn memory(memory: &Memory) -> Value {
    let &Memory { arguments, outputs, aliased, temporaries, code, peak, allocated } = memory;
    json!({
        "arguments": arguments,
        "outputs": outputs,
        "aliased": aliased,
        "temporaries": temporaries,
        "code": code,
        "peak": peak,
        "allocated": allocated,
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({
        "seconds": estimate.seconds,
        "cycles": estimate.cycles,
        "unmodelled_seconds": estimate.unmodelled_seconds,
        "unmodelled": estimate.unmodelled,
        "collectives": estimate.collectives,
        "unbounded_loops": estimate.unbounded_loops,
        "operations": estimate.operations.iter().map(operation).collect::<Vec<_>>(),
    })
}

fn operation(operation: &Operation) -> Value {
    let place = |Place { name, file, line }: &Place| json!({ "name": name, "file": file, "line": line });
    json!({
        "name": operation.name,
        "cycles": operation.cycles,
        "runs": operation.runs,
        "places": operation.places.iter().map(place).collect::<Vec<_>>(),
    })
}
