// The C API from Rust, with declarations written by hand: squares a number.
//
//   rustc -o c_api c_api.rs -lsluice_c && ./c_api 7    # 49
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Output { oper: *mut c_void, index: i32 }

#[link(name = "sluice_c")]
extern "C" {
    fn TF_NewStatus() -> *mut c_void;
    fn TF_Message(status: *mut c_void) -> *const c_char;
    fn TF_NewGraph() -> *mut c_void;
    fn TF_NewOperation(graph: *mut c_void, op: *const c_char, name: *const c_char) -> *mut c_void;
    fn TF_AddInput(desc: *mut c_void, input: Output);
    fn TF_SetAttrType(desc: *mut c_void, name: *const c_char, dtype: i32);
    fn TF_FinishOperation(desc: *mut c_void, status: *mut c_void) -> *mut c_void;
    fn TF_AllocateTensor(dtype: i32, dims: *const i64, rank: i32, bytes: usize) -> *mut c_void;
    fn TF_TensorData(tensor: *const c_void) -> *mut c_void;
    fn TF_NewSession(graph: *mut c_void, o: *const c_void, status: *mut c_void) -> *mut c_void;
    fn TF_SessionRun(session: *mut c_void, options: *const c_void, inputs: *const Output,
                     values: *const *mut c_void, ninputs: i32, outputs: *const Output,
                     results: *mut *mut c_void, noutputs: i32, targets: *const *mut c_void,
                     ntargets: i32, metadata: *mut c_void, status: *mut c_void);
}

// A C string, from one that ends with a 0.
fn text(s: &'static str) -> *const c_char {
    s.as_ptr() as *const c_char
}

fn main() {
    let number: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(7.0);
    unsafe {
        const DOUBLE: i32 = 2;
        let (status, graph) = (TF_NewStatus(), TF_NewGraph());
        let desc = TF_NewOperation(graph, text("Placeholder\0"), text("x\0"));
        TF_SetAttrType(desc, text("dtype\0"), DOUBLE);
        let x = TF_FinishOperation(desc, status);
        let desc = TF_NewOperation(graph, text("Square\0"), text("y\0"));
        TF_AddInput(desc, Output { oper: x, index: 0 });
        let y = TF_FinishOperation(desc, status);
        let session = TF_NewSession(graph, null(), status);
        let value = TF_AllocateTensor(DOUBLE, null(), 0, 8);
        *(TF_TensorData(value) as *mut f64) = number;
        let mut result = null_mut();
        TF_SessionRun(session, null(), &Output { oper: x, index: 0 }, &value, 1,
                      &Output { oper: y, index: 0 }, &mut result, 1, null(), 0, null_mut(), status);
        assert!(!result.is_null(), "{:?}", CStr::from_ptr(TF_Message(status)));
        println!("{}", *(TF_TensorData(result) as *const f64));
    }
}
