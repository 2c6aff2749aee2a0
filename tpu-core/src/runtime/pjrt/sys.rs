//! The part of `pjrt_c_api.h` that is used here: argument structs, their places in the function table, enumerations.
//!
//! Every argument struct of C begins with its size and a chain of extensions; [`Args`] adds both, and a tail of zeros. A
//! plugin refuses a struct that is smaller than it considers mandatory and takes any larger one, so that one declaration
//! serves all versions: what a newer plugin knows beyond ours reads as "not set", an older one does not look at the tail.
//! The table of functions only ever grew at its end. `tests/pjrt_layout.rs` compares all of this
//! with the header.
//!
//! Nothing here but declarations, and nothing from the rest of the crate: that test and the fake plugin of the tests
//! include this file.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

/// What stands before the functions in the table: size, extensions, and the version as a struct of its own.
#[repr(C)]
pub struct Head {
    /// Bytes of the whole table.
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub version_size: usize,
    pub version_extension_start: *mut c_void,
    pub major: i32,
    pub minor: i32,
}

/// Zeros behind the fields that we know.
const TAIL: usize = 24;

/// An argument struct as C sees it.
#[repr(C)]
pub struct Args<T> {
    struct_size: usize,
    extension_start: *mut c_void,
    pub body: T,
    tail: [u64; TAIL],
}

impl<T> Args<T> {
    pub fn new(body: T) -> Self {
        Self { struct_size: size_of::<Self>(), extension_start: std::ptr::null_mut(), body, tail: [0; TAIL] }
    }

    /// What a plugin wrote into the `index`-th 8 bytes behind the declared fields: a field of a later version.
    #[allow(dead_code, reason = "the fake plugin of the tests does not read answers")]
    pub fn later(&self, index: usize) -> u64 {
        self.tail[index]
    }
}

/// The arguments of a function in the table.
pub trait Call {
    /// Its place among the functions.
    const INDEX: usize;
    /// Its name without `PJRT_`.
    const NAME: &'static str;
}

/// A struct of the header: its name, our size, and the name, offset and size of each field as we declare it.
#[derive(Debug)]
#[allow(dead_code, reason = "read by the test that compares with the header")]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub fields: &'static [(&'static str, usize, usize)],
    /// The place of the function that takes it.
    pub index: Option<usize>,
}

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident $c:literal $(= $index:literal)? { $($field:ident: $ty:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $ty),* }

            impl Default for $name {
                /// All zeros: nothing set.
                fn default() -> Self {
                    // SAFETY: the fields are numbers, flags, pointers, optional functions and structs of such: zeros are a
                    // value of each.
                    unsafe { std::mem::zeroed() }
                }
            }

            $(impl Call for $name {
                const INDEX: usize = $index;
                const NAME: &'static str = $c;
            })?
        )*

        /// Every struct above.
        #[allow(dead_code, reason = "read by the test that compares with the header")]
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: $c,
            size: size_of::<$name>(),
            fields: &[$((stringify!($field), offset_of!($name, $field), size_of::<$ty>())),*],
            index: { let index: &[usize] = &[$($index)?]; if index.is_empty() { None } else { Some(index[0]) } },
        }),*];
    };
}

/// An opaque object of the plugin.
pub type Raw = *mut c_void;
/// A list of objects.
pub type RawList = *const Raw;
/// Called once when an event is over; the error is the callee's to free.
pub type OnReady = unsafe extern "C" fn(error: Raw, user_arg: *mut c_void);
/// Text or bytes of the plugin, with a length beside it.
pub type Text = *const c_char;

structs! {
    ErrorDestroy "Error_Destroy" = 0 { error: Raw }
    ErrorMessage "Error_Message" = 1 { error: Raw, message: Text, message_size: usize }
    ErrorGetCode "Error_GetCode" = 2 { error: Raw, code: i32 }
    PluginInitialize "Plugin_Initialize" = 3 {}
    PluginAttributes "Plugin_Attributes" = 4 { attributes: *const NamedValue, num_attributes: usize }

    EventDestroy "Event_Destroy" = 5 { event: Raw }
    EventIsReady "Event_IsReady" = 6 { event: Raw, is_ready: bool }
    EventAwait "Event_Await" = 8 { event: Raw }
    EventOnReady "Event_OnReady" = 9 { event: Raw, callback: Option<OnReady>, user_arg: *mut c_void }

    ClientCreate "Client_Create" = 10 {
        create_options: *const NamedValue,
        num_options: usize,
        kv_get_callback: Raw,
        kv_get_user_arg: Raw,
        kv_put_callback: Raw,
        kv_put_user_arg: Raw,
        client: Raw,
        kv_try_get_callback: Raw,
        kv_try_get_user_arg: Raw,
    }
    ClientDestroy "Client_Destroy" = 11 { client: Raw }
    ClientPlatformName "Client_PlatformName" = 12 { client: Raw, platform_name: Text, platform_name_size: usize }
    ClientPlatformVersion "Client_PlatformVersion" = 14 {
        client: Raw,
        platform_version: Text,
        platform_version_size: usize,
    }
    ClientAddressableDevices "Client_AddressableDevices" = 16 {
        client: Raw,
        addressable_devices: RawList,
        num_addressable_devices: usize,
    }
    ClientCompile "Client_Compile" = 20 {
        client: Raw,
        program: *const Args<Program>,
        compile_options: Text,
        compile_options_size: usize,
        executable: Raw,
    }
    ClientBufferFromHostBuffer "Client_BufferFromHostBuffer" = 22 {
        client: Raw,
        data: *const c_void,
        r#type: i32,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: i32,
        device: Raw,
        memory: Raw,
        device_layout: Raw,
        done_with_host_buffer: Raw,
        buffer: Raw,
    }

    DeviceDescriptionId "DeviceDescription_Id" = 23 { device_description: Raw, id: i32 }
    DeviceDescriptionProcessIndex "DeviceDescription_ProcessIndex" = 24 { device_description: Raw, process_index: i32 }
    DeviceDescriptionAttributes "DeviceDescription_Attributes" = 25 {
        device_description: Raw,
        num_attributes: usize,
        attributes: *const NamedValue,
    }
    DeviceDescriptionKind "DeviceDescription_Kind" = 26 {
        device_description: Raw,
        device_kind: Text,
        device_kind_size: usize,
    }
    DeviceGetDescription "Device_GetDescription" = 29 { device: Raw, device_description: Raw }
    DeviceMemoryStats "Device_MemoryStats" = 34 {
        device: Raw,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
    }

    ExecutableDestroy "Executable_Destroy" = 40 { executable: Raw }
    ExecutableNumOutputs "Executable_NumOutputs" = 44 { executable: Raw, num_outputs: usize }
    ExecutableGetCostAnalysis "Executable_GetCostAnalysis" = 46 {
        executable: Raw,
        num_properties: usize,
        properties: *const NamedValue,
    }
    ExecutableOptimizedProgram "Executable_OptimizedProgram" = 48 { executable: Raw, program: *mut Args<Program> }
    ExecutableSerialize "Executable_Serialize" = 49 {
        executable: Raw,
        serialized_bytes: Text,
        serialized_bytes_size: usize,
        serialized_executable: Raw,
        serialized_executable_deleter: Option<unsafe extern "C" fn(Raw)>,
    }
    LoadedExecutableDestroy "LoadedExecutable_Destroy" = 50 { executable: Raw }
    LoadedExecutableGetExecutable "LoadedExecutable_GetExecutable" = 51 { loaded_executable: Raw, executable: Raw }
    LoadedExecutableAddressableDevices "LoadedExecutable_AddressableDevices" = 52 {
        executable: Raw,
        addressable_devices: RawList,
        num_addressable_devices: usize,
    }
    LoadedExecutableExecute "LoadedExecutable_Execute" = 55 {
        executable: Raw,
        options: *mut Args<ExecuteOptions>,
        argument_lists: *const RawList,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut Raw,
        device_complete_events: *mut Raw,
        execute_device: Raw,
    }

    ExecutableDeserializeAndLoad "Executable_DeserializeAndLoad" = 56 {
        client: Raw,
        serialized_executable: Text,
        serialized_executable_size: usize,
        loaded_executable: Raw,
        overridden_serialized_compile_options: Text,
        overridden_serialized_compile_options_size: usize,
    }

    BufferDestroy "Buffer_Destroy" = 58 { buffer: Raw }
    BufferToHostBuffer "Buffer_ToHostBuffer" = 70 {
        src: Raw,
        host_layout: *const Args<MemoryLayout>,
        dst: *mut c_void,
        dst_size: usize,
        event: Raw,
    }

    TopologyDescriptionCreate "TopologyDescription_Create" = 82 {
        topology_name: Text,
        topology_name_size: usize,
        create_options: *const NamedValue,
        num_options: usize,
        topology: Raw,
    }
    TopologyDescriptionDestroy "TopologyDescription_Destroy" = 83 { topology: Raw }
    TopologyDescriptionPlatformVersion "TopologyDescription_PlatformVersion" = 85 {
        topology: Raw,
        platform_version: Text,
        platform_version_size: usize,
    }
    TopologyDescriptionGetDeviceDescriptions "TopologyDescription_GetDeviceDescriptions" = 86 {
        topology: Raw,
        descriptions: RawList,
        num_descriptions: usize,
    }
    TopologyDescriptionAttributes "TopologyDescription_Attributes" = 88 {
        topology: Raw,
        attributes: *const NamedValue,
        num_attributes: usize,
    }
    Compile "Compile" = 89 {
        topology: Raw,
        program: *const Args<Program>,
        compile_options: Text,
        compile_options_size: usize,
        client: Raw,
        executable: Raw,
    }
    ExecutableFingerprint "Executable_Fingerprint" = 94 {
        executable: Raw,
        executable_fingerprint: Text,
        executable_fingerprint_size: usize,
    }
    ClientTopologyDescription "Client_TopologyDescription" = 95 { client: Raw, topology: Raw }
    /// Later versions have more, see `aot`.
    ExecutableGetCompiledMemoryStats "Executable_GetCompiledMemoryStats" = 96 {
        executable: Raw,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
    }

    // Structs that others point to. Those with an `Args` around them declare what follows size and extensions.

    ExecuteOptions "ExecuteOptions" {
        send_callbacks: Raw,
        recv_callbacks: Raw,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: i32,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: Raw,
        call_location: Text,
        num_tasks: usize,
        task_ids: *const i32,
        incarnation_ids: *const i64,
    }
    /// A dense layout without tiles. The header has a union here, of which this is the larger part.
    MemoryLayout "Buffer_MemoryLayout" { tiled: TiledLayout, r#type: i32 }
    /// In arrays and unions these have no tail, so size and extensions are declared.
    TiledLayout "Buffer_MemoryLayout_Tiled" {
        struct_size: usize,
        extension_start: Raw,
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }
    /// `value` holds the header's union: a number, a flag, or a pointer to text or numbers.
    NamedValue "NamedValue" {
        struct_size: usize,
        extension_start: Raw,
        name: Text,
        name_size: usize,
        r#type: i32,
        value: u64,
        value_size: usize,
    }
    Program "Program" { code: Text, code_size: usize, format: Text, format_size: usize }
}

/// `PJRT_Error_Code`: those that we tell apart.
pub mod code {
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const NOT_FOUND: i32 = 5;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const UNIMPLEMENTED: i32 = 12;
}

/// `PJRT_NamedValue_Type`.
pub mod named {
    pub const STRING: i32 = 0;
    pub const INT64: i32 = 1;
    pub const INT64_LIST: i32 = 2;
    pub const FLOAT: i32 = 3;
    pub const BOOL: i32 = 4;
}

/// `PJRT_HostBufferSemantics`.
pub mod semantics {
    pub const IMMUTABLE_ONLY_DURING_CALL: i32 = 0;
    pub const IMMUTABLE_UNTIL_TRANSFER_COMPLETES: i32 = 1;
    pub const MUTABLE_ZERO_COPY: i32 = 3;
}

/// Names of `PJRT_Buffer_Type` without the prefix, in the header's order from 0 on, as far as we have dtypes.
pub const BUFFER_TYPES: &[&str] = &[
    "INVALID", "PRED", "S8", "S16", "S32", "S64", "U8", "U16", "U32", "U64", "F16", "F32", "F64", "BF16", "C64",
    "C128", "F8E5M2", "F8E4M3FN",
];
