/* The script of the stand-in: its form is told in nvml_standin.c. Read anew at every call. */
#define MOST_GPUS 16
#define MOST_PROCESSES 32
#define MOST_RULES 32
#define UNSET (-1)
#define MIB (1024ULL * 1024ULL)

enum kind { COMPUTE, GRAPHICS, MPS };

struct process { enum kind kind; unsigned int pid; long long mib; };
struct rule { const char *what; char function[80]; int code; };

struct part {
    char driver[80], nvml[80], uuid[96], name[96], pci[32], ecc[8];
    long long cuda, memory_mib, used_mib, reserved_mib, utilisation, recovery, remap_pending, remap_failed;
    struct process processes[MOST_PROCESSES];
    unsigned int process_count;
    struct rule rules[MOST_RULES];
    unsigned int rule_count;
};

/* parts[0] is the system, parts[n + 1] the GPU at index n */
static struct part parts[MOST_GPUS + 1];
static unsigned int gpu_count;

static void wrong_script(const char *line)
{
    fprintf(stderr, "nvml stand-in: cannot read the script: %s\n", line);
    abort();
}

static FILE *open_script(void)
{
    const char *named = getenv("NVML_STANDIN_SCRIPT");
    char path[4096];
    Dl_info self;
    if (named == NULL) {
        dladdr((void *)open_script, &self);
        snprintf(path, sizeof path, "%s", self.dli_fname);
        char *slash = strrchr(path, '/');
        size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
        snprintf(path + folder, sizeof path - folder, "nvml.script");
        named = path;
    }
    FILE *script = fopen(named, "r");
    if (script == NULL)
        wrong_script(named);
    return script;
}

static int take_text(struct part *part, const char *key, const char *value)
{
    const struct { const char *key; char *field; size_t size; } texts[] = {
        {"driver", part->driver, sizeof part->driver}, {"nvml", part->nvml, sizeof part->nvml},
        {"uuid", part->uuid, sizeof part->uuid},       {"name", part->name, sizeof part->name},
        {"pci", part->pci, sizeof part->pci},          {"ecc", part->ecc, sizeof part->ecc},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(key, texts[i].key) == 0) {
            snprintf(texts[i].field, texts[i].size, "%s", value);
            return 1;
        }
    return 0;
}

static int take_number(struct part *part, const char *key, const char *value)
{
    const struct { const char *key; long long *field; } numbers[] = {
        {"cuda", &part->cuda},                   {"memory_mib", &part->memory_mib},
        {"used_mib", &part->used_mib},           {"reserved_mib", &part->reserved_mib},
        {"utilisation", &part->utilisation},     {"recovery", &part->recovery},
        {"remap_pending", &part->remap_pending}, {"remap_failed", &part->remap_failed},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].field = atoll(value);
            return 1;
        }
    return 0;
}

static int take_process(struct part *part, const char *key, const char *value)
{
    static const char *kinds[] = {"compute", "graphics", "mps"};
    for (enum kind kind = COMPUTE; kind <= MPS; kind++)
        if (strcmp(key, kinds[kind]) == 0) {
            struct process *process = &part->processes[part->process_count];
            if (part->process_count == MOST_PROCESSES || sscanf(value, "%u %lld", &process->pid, &process->mib) != 2)
                wrong_script(value);
            process->kind = kind;
            part->process_count++;
            return 1;
        }
    return 0;
}

static int take_rule(struct part *part, const char *key, const char *value)
{
    static const char *whats[] = {"fail", "hang", "crash", "chatter"};
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++)
        if (strcmp(key, whats[i]) == 0) {
            struct rule *rule = &part->rules[part->rule_count];
            rule->code = NVML_ERROR_UNKNOWN;
            if (part->rule_count == MOST_RULES || sscanf(value, "%79s %d", rule->function, &rule->code) < 1)
                wrong_script(value);
            rule->what = whats[i];
            part->rule_count++;
            return 1;
        }
    return 0;
}

static struct part *fresh_part(unsigned int number)
{
    struct part *part = &parts[number];
    memset(part, 0, sizeof *part);
    part->cuda = part->memory_mib = part->utilisation = part->recovery = UNSET;
    part->remap_pending = part->remap_failed = UNSET;
    return part;
}

static void read_script(void)
{
    char line[512], key[64], value[256];
    struct part *part = fresh_part(0);
    FILE *script = open_script();
    gpu_count = 0;
    while (fgets(line, sizeof line, script) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (strcmp(line, "[gpu]") == 0) {
            if (gpu_count == MOST_GPUS)
                wrong_script(line);
            part = fresh_part(++gpu_count);
            continue;
        }
        if (sscanf(line, "%63[a-z_] = %255[^\n]", key, value) != 2)
            wrong_script(line);
        if (!take_text(part, key, value) && !take_number(part, key, value) && !take_process(part, key, value)
            && !take_rule(part, key, value))
            wrong_script(line);
    }
    fclose(script);
}

static nvmlReturn_t obey(const struct part *part, const char *function)
{
    for (unsigned int i = 0; i < part->rule_count; i++) {
        const struct rule *rule = &part->rules[i];
        int is_any = strcmp(rule->function, "*") == 0 && strcmp(function, "nvmlDeviceGetUUID") != 0
                     && strcmp(function, "nvmlDeviceGetHandleByIndex_v2") != 0;
        if (!is_any && strcmp(rule->function, function) != 0)
            continue;
        if (strcmp(rule->what, "fail") == 0)
            return (nvmlReturn_t)rule->code;
        if (strcmp(rule->what, "crash") == 0)
            abort();
        if (strcmp(rule->what, "chatter") == 0) {
            printf("a warning of the library\n");
            fflush(stdout);
        }
        while (strcmp(rule->what, "hang") == 0)
            pause();
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t about_system(const char *function, struct part **system)
{
    read_script();
    *system = &parts[0];
    return obey(*system, function);
}

static nvmlReturn_t about_gpu(const char *function, nvmlDevice_t device, struct part **gpu)
{
    uintptr_t number = (uintptr_t)device;
    read_script();
    if (number == 0 || number > gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &parts[number];
    return obey(*gpu, function);
}

#define SYSTEM_OR_RETURN(name)                                         \
    struct part *name;                                                 \
    do {                                                               \
        nvmlReturn_t answer_ = about_system(__func__, &(name));        \
        if (answer_ != NVML_SUCCESS)                                   \
            return answer_;                                            \
    } while (0)

#define GPU_OR_RETURN(name, device)                                    \
    struct part *name;                                                 \
    do {                                                               \
        nvmlReturn_t answer_ = about_gpu(__func__, (device), &(name)); \
        if (answer_ != NVML_SUCCESS)                                   \
            return answer_;                                            \
    } while (0)
