/* A stand-in for libnvidia-ml.so.1, scripted by a file that every call reads anew.
 *
 * The file is $NVML_STANDIN_SCRIPT, or else nvml.script beside this library. Its lines are `key = value`; those before
 * the first [gpu] are about the system, those after about that GPU:
 *
 *   driver = 570.86.15        nvml = 12.570.86.15      cuda = 12080
 *   [gpu]
 *   uuid = GPU-…              name = NVIDIA H200       pci = 00000000:41:00.0
 *   memory_mib = 143771       used_mib = 4             reserved_mib = 600
 *   ecc = on | off            utilisation = 35         recovery = 1
 *   remap_pending = 1         remap_failed = 1
 *   compute = PID MIB         graphics = PID MIB       mps = PID MIB      (as often as wanted)
 *   fail = FUNCTION CODE      hang = FUNCTION          crash = FUNCTION   chatter = FUNCTION
 *
 * FUNCTION is a function's full name, version and all. For a GPU, "*" is every function that takes its handle, but not
 * the one that gives its UUID. What the script does not name is answered "not supported".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "script.h"

static nvmlReturn_t give_text(const char *text, char *to, unsigned int size)
{
    if (text[0] == '\0')
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    SYSTEM_OR_RETURN(system);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    SYSTEM_OR_RETURN(system);
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_UNKNOWN: return "Unknown Error";
    default: return "an error of the stand-in";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SYSTEM_OR_RETURN(system);
    return give_text(system->driver, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    SYSTEM_OR_RETURN(system);
    return give_text(system->nvml, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    SYSTEM_OR_RETURN(system);
    if (system->cuda == UNSET)
        return NVML_ERROR_NOT_SUPPORTED;
    *version = (int)system->cuda;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    SYSTEM_OR_RETURN(system);
    *count = gpu_count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlDevice_t handle = (nvmlDevice_t)(uintptr_t)(index + 1);
    GPU_OR_RETURN(gpu, handle);
    *device = handle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    GPU_OR_RETURN(gpu, device);
    return give_text(gpu->uuid, uuid, length);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    GPU_OR_RETURN(gpu, device);
    return give_text(gpu->name, name, length);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    GPU_OR_RETURN(gpu, device);
    memset(pci, 0, sizeof *pci);
    return give_text(gpu->pci, pci->busId, sizeof pci->busId);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    GPU_OR_RETURN(gpu, device);
    if (gpu->memory_mib == UNSET)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = (unsigned long long)gpu->memory_mib * MIB;
    memory->used = (unsigned long long)(gpu->used_mib + gpu->reserved_mib) * MIB;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    GPU_OR_RETURN(gpu, device);
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (gpu->memory_mib == UNSET)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = (unsigned long long)gpu->memory_mib * MIB;
    memory->reserved = (unsigned long long)gpu->reserved_mib * MIB;
    memory->used = (unsigned long long)gpu->used_mib * MIB;
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    GPU_OR_RETURN(gpu, device);
    if (gpu->ecc[0] == '\0')
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = strcmp(gpu->ecc, "on") == 0 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    GPU_OR_RETURN(gpu, device);
    if (gpu->utilisation == UNSET)
        return NVML_ERROR_NOT_SUPPORTED;
    utilization->gpu = utilization->memory = (unsigned int)gpu->utilisation;
    return NVML_SUCCESS;
}

static nvmlReturn_t give_processes(const struct part *gpu, enum kind kind, unsigned int *count, nvmlProcessInfo_t *infos)
{
    unsigned int room = *count, found = 0;
    for (unsigned int i = 0; i < gpu->process_count; i++) {
        const struct process *process = &gpu->processes[i];
        if (process->kind != kind)
            continue;
        if (infos != NULL && found < room) {
            memset(&infos[found], 0, sizeof *infos);
            infos[found].pid = process->pid;
            infos[found].usedGpuMemory = process->mib < 0 ? (unsigned long long)NVML_VALUE_NOT_AVAILABLE
                                                          : (unsigned long long)process->mib * MIB;
        }
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    GPU_OR_RETURN(gpu, device);
    return give_processes(gpu, COMPUTE, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    GPU_OR_RETURN(gpu, device);
    return give_processes(gpu, GRAPHICS, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                        nvmlProcessInfo_t *infos)
{
    GPU_OR_RETURN(gpu, device);
    return give_processes(gpu, MPS, count, infos);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *is_pending, unsigned int *has_failed)
{
    GPU_OR_RETURN(gpu, device);
    if (gpu->remap_pending == UNSET && gpu->remap_failed == UNSET)
        return NVML_ERROR_NOT_SUPPORTED;
    *correctable = *uncorrectable = 0;
    *is_pending = gpu->remap_pending == 1;
    *has_failed = gpu->remap_failed == 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    GPU_OR_RETURN(gpu, device);
    for (int i = 0; i < count; i++) {
        int is_known = values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && gpu->recovery != UNSET;
        values[i].nvmlReturn = is_known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        values[i].value.uiVal = is_known ? (unsigned int)gpu->recovery : 0;
    }
    return NVML_SUCCESS;
}
