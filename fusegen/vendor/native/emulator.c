/* What a lowered kernel calls: the C interface of the vendor's shared-memory library, the core it runs on, memory.

   All that concerns other programs is asked of the machine, a function of the process that loads this library. It comes
   back when the program may go on, and other programs have run on the same stack in the meantime. When it tells the
   program to leave, the kernel is abandoned where it stands. */

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* memref<?xT, strided<[?], offset: ?>>: offset and stride count elements. */
typedef struct {
  char *allocated, *aligned;
  int64_t offset, size, stride;
} Memory;

typedef struct Block {
  struct Block *next;
  int64_t padding; /* what follows is aligned as malloc aligns */
} Block;

typedef struct {
  jmp_buf left;
  Block *blocks;
} Program;

/* Nonzero tells the program to leave. `operands` are integers, addresses among them. */
typedef int (*Machine)(const char *function, int line, const int64_t *operands, int64_t *result);

static Machine machine;
static Program *running;
static int line;

void emulator_attach(Machine answers) { machine = answers; }

static int64_t ask(const char *function, int64_t a, int64_t b, int64_t c, int64_t d) {
  Program *own = running;
  int64_t operands[] = {a, b, c, d}, result = 0;
  int leaves = machine(function, line, operands, &result);
  running = own;
  if (leaves)
    longjmp(own->left, 1);
  return result;
}

/* 0 when the kernel has returned, 1 when it was left. */
int emulator_run(void (*kernel)(void **), void **arguments) {
  Program program = {.blocks = NULL};
  int left = setjmp(program.left);
  running = &program;
  if (!left)
    kernel(arguments);
  for (Block *block = running->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  return left;
}

/* The lowered kernel frees nothing: its tiles live as long as the program. What nobody has written is NaN. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size) {
  Block *block = __real_malloc(sizeof(Block) + size);
  if (!block)
    abort();
  block->next = running->blocks;
  running->blocks = block;
  return memset(block + 1, 0xff, size);
}

void emulator_at(int source_line) { line = source_line; }
int emulator_is_cube(void) { return ask("is_cube", 0, 0, 0, 0); }
int64_t emulator_sub_block(void) { return ask("sub_block", 0, 0, 0, 0); }
void emulator_sync_block_set(int event, int is_cube) { ask("sync_block_set", event, is_cube, 0, 0); }
void emulator_sync_block_wait(int event, int is_cube) { ask("sync_block_wait", event, is_cube, 0, 0); }

static int64_t address(const Memory *memory, int64_t bytes) {
  return (int64_t)(memory->aligned + memory->offset * bytes);
}

static void place(Memory *result, int64_t where, const Memory *like) {
  *result = (Memory){(char *)where, (char *)where, 0, like->size, like->stride};
}

#define C_INTERFACE(name) _mlir_ciface_aclshmem##name

#define FOR_ELEMENT(element, bytes)                                                                                   \
  void C_INTERFACE(_ptr_##element)(Memory * result, const Memory *memory, int pe) {                                   \
    place(result, ask("symm_at", address(memory, bytes), pe, 0, 0), memory);                                          \
  }                                                                                                                   \
  void C_INTERFACE(_consume_token_##element##_ptr_1d)(Memory * result, const Memory *memory, int token) {             \
    (void)token;                                                                                                      \
    place(result, address(memory, bytes), memory);                                                                    \
  }                                                                                                                   \
  void C_INTERFACE(_##element##_putmem)(const Memory *to, const Memory *from, int size, int pe) {                     \
    ask("putmem", address(to, bytes), address(from, bytes), size, pe);                                                \
  }

#define FOR_SLOT(element, bytes, word)                                                                                \
  int C_INTERFACE(_wait_##element)(const Memory *slots, int64_t count, word value) {                                  \
    return ask("wait", address(slots, bytes), bytes, count, value);                                                   \
  }

FOR_ELEMENT(half, 2)
FOR_ELEMENT(bfloat16, 2)
FOR_ELEMENT(float, 4)
FOR_ELEMENT(int8, 1)
FOR_ELEMENT(int16, 2)
FOR_ELEMENT(int32, 4)
FOR_ELEMENT(int64, 8)
FOR_SLOT(int32, 4, int32_t)
FOR_SLOT(int64, 8, int64_t)

void C_INTERFACE(_int64_p)(const Memory *slot, int64_t value, int pe) {
  ask("notify", address(slot, 8), value, pe, 0);
}
void C_INTERFACE(_fence)(void) { ask("fence", 0, 0, 0, 0); }
void C_INTERFACE(_barrier_all)(void) { ask("barrier_all", 0, 0, 0, 0); }
void C_INTERFACE(x_barrier_all_vec)(void) { ask("barrier_all_vec", 0, 0, 0, 0); }
int C_INTERFACE(_my_pe)(void) { return ask("my_pe", 0, 0, 0, 0); }
int C_INTERFACE(_n_pes)(void) { return ask("n_pes", 0, 0, 0, 0); }

/* What MLIR expects for memref.copy: any strides, sizes and strides after the offset. */
typedef struct {
  int64_t rank;
  void *memory;
} Unranked;

static void copy_axis(char *to, const char *from, const int64_t *sizes, const int64_t *to_strides,
                      const int64_t *from_strides, int64_t axes, int64_t bytes) {
  if (axes == 0 || (axes == 1 && *to_strides == 1 && *from_strides == 1)) {
    memcpy(to, from, axes ? *sizes * bytes : bytes);
    return;
  }
  for (int64_t index = 0; index < *sizes; index++)
    copy_axis(to + index * *to_strides * bytes, from + index * *from_strides * bytes, sizes + 1, to_strides + 1,
              from_strides + 1, axes - 1, bytes);
}

void memrefCopy(int64_t bytes, const Unranked *from, const Unranked *to) {
  const Memory *source = from->memory, *target = to->memory;
  const int64_t *sizes = &source->size, axes = from->rank;
  copy_axis(target->aligned + target->offset * bytes, source->aligned + source->offset * bytes, sizes,
            &target->size + axes, sizes + axes, axes, bytes);
}

/* Rounds to the nearest bfloat16, ties to even; libraries of older compilers do not have it. */
__attribute__((weak)) float __truncsfbf2(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = value != value ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  memcpy(&value, &bits, sizeof bits);
  return value;
}
