/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Derived datatypes on either side and on both: vectors, indexed, structs, resized, negative
 * lower bounds, subarrays, and random nests of them. The reference is MPI_Pack. */
#include <float.h>

#include "check.h"

enum { kMemory = 2 << 20, kMiddle = kMemory / 2, kTypes = 12 };
enum { kLongDouble = LDBL_MANT_DIG / 8 + 2 }; /* bytes of one that have a meaning */
static char *memory, *reference, *packed, *arrived;

static int padded; /* the type made last is of long doubles, the rest of which is padding */

static MPI_Datatype make_type(int which, int scale) {
  MPI_Datatype type, inner;
  int n = scale;
  padded = 10 == which;
  switch (which) {
    case 0:
      MPI_Type_vector(n, 3, 7, MPI_INT, &type);
      break;
    case 1:
      MPI_Type_create_hvector(n, 1, 11, MPI_DOUBLE, &type);
      break;
    case 2: { /* indexed, backwards and with an empty block */
      int lengths[4] = {2, 0, 5, 1}, places[4] = {40, 3, 9, 0};
      MPI_Type_indexed(4, lengths, places, MPI_SHORT, &inner);
      MPI_Type_contiguous(n, inner, &type);
      MPI_Type_free(&inner);
      break;
    }
    case 3: { /* a struct with holes */
      int lengths[3] = {1, 3, 2};
      MPI_Aint places[3] = {0, 10, 24};
      MPI_Datatype types[3] = {MPI_CHAR, MPI_INT, MPI_DOUBLE};
      MPI_Type_create_struct(3, lengths, places, types, &inner);
      MPI_Type_contiguous(n, inner, &type);
      MPI_Type_free(&inner);
      break;
    }
    case 4: /* resized larger */
      MPI_Type_create_resized(MPI_INT, 0, 20, &inner);
      MPI_Type_contiguous(n, inner, &type);
      MPI_Type_free(&inner);
      break;
    case 5: { /* negative lower bound */
      int lengths[2] = {1, 2};
      MPI_Aint places[2] = {-48, 16};
      MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
      MPI_Type_create_struct(2, lengths, places, types, &type);
      break;
    }
    case 6: { /* a block inside a cube */
      int sizes[3] = {n + 2, 12, 9}, parts[3] = {n, 5, 4}, starts[3] = {1, 2, 3};
      MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_FLOAT, &type);
      break;
    }
    case 7: { /* contiguous bytes that start off the base */
      int length = 16 * n;
      MPI_Aint place = 24;
      MPI_Type_create_hindexed(1, &length, &place, MPI_BYTE, &type);
      break;
    }
    case 8: { /* the same below the base */
      int length = 8 * n;
      MPI_Aint place = -8 * (MPI_Aint)n - 8;
      MPI_Type_create_hindexed(1, &length, &place, MPI_BYTE, &type);
      break;
    }
    case 9: /* large elements that frames cut in two */
      MPI_Type_vector(n, 1, 2, MPI_C_DOUBLE_COMPLEX, &type);
      break;
    case 10:
      MPI_Type_vector(n, 1, 2, MPI_LONG_DOUBLE, &type);
      break;
    default: { /* nest */
      MPI_Type_vector(3, 1, 2, MPI_INT, &inner);
      MPI_Type_create_hvector(n, 2, 70, inner, &type);
      MPI_Type_free(&inner);
      break;
    }
  }
  MPI_Type_commit(&type);
  return type;
}

static int pack_size(MPI_Datatype type, int count, const char* from) {
  int position = 0;
  MPI_Pack(from + kMiddle, count, type, packed, kMemory, &position, MPI_COMM_WORLD);
  return position;
}

/* Sends `count` of `type`, typed or as packed bytes, receives typed or as bytes. */
static void transfer(MPI_Datatype type, int count, int typed_send, int typed_recv, int partner,
                     int which) {
  MPI_Request request;
  MPI_Status status;
  fill(memory, kMemory, (uint32_t)world_rank);
  fill(reference, kMemory, (uint32_t)partner);
  int bytes = pack_size(type, count, reference); /* what must arrive */
  memcpy(arrived, packed, (size_t)bytes);
  char* image = malloc(kMemory); /* what the receive buffer must be */
  CHECK(image, "no memory");
  memset(image, 0x33, kMemory);
  int position = 0;
  MPI_Unpack(arrived, bytes, &position, image + kMiddle, count, type, MPI_COMM_WORLD);
  memset(reference, 0x33, kMemory);
  if (typed_recv)
    MPI_Irecv(reference + kMiddle, count, type, partner, 8, MPI_COMM_WORLD, &request);
  else
    MPI_Irecv(reference, bytes, MPI_BYTE, partner, 8, MPI_COMM_WORLD, &request);
  if (typed_send) {
    MPI_Send(memory + kMiddle, count, type, partner, 8, MPI_COMM_WORLD);
  } else {
    int size = pack_size(type, count, memory);
    MPI_Send(packed, size, MPI_PACKED, partner, 8, MPI_COMM_WORLD);
  }
  MPI_Wait(&request, &status);
  int elements = -1;
  MPI_Get_count(&status, typed_recv ? type : MPI_BYTE, &elements);
  CHECK(elements == (typed_recv ? count : bytes), "type %d: count %d of %d", which, elements,
        typed_recv ? count : bytes);
  const char* expected = typed_recv ? image : arrived;
  size_t length = typed_recv ? kMemory : (size_t)bytes;
  if (padded && typed_recv) { /* if it is copied is Open MPI's and the compiler's matter */
    expected = arrived;
    length = (size_t)pack_size(type, count, reference);
    memcpy(reference, packed, length);
  }
  for (size_t i = 0; i < length; ++i) {
    if (padded && i % sizeof(long double) >= kLongDouble) continue;
    CHECK(reference[i] == expected[i], "type %d, count %d, typed %d to %d: byte %zu is %d, not %d",
          which, count, typed_send, typed_recv, i, reference[i], expected[i]);
  }
  free(image);
}

static void every_type(int partner) {
  for (int which = 0; which < kTypes; ++which) {
    static const int scales[] = {1, 5, 300, 9000};
    for (int s = 0; s < 4; ++s) {
      MPI_Datatype type = make_type(which, scales[s]);
      MPI_Aint low, extent;
      MPI_Type_get_true_extent(type, &low, &extent);
      for (int count = 1; count <= 3; count += 2) {
        if (extent * count > kMiddle - 1024 || (MPI_Aint)low * 3 < -kMiddle) continue;
        transfer(type, count, 1, 1, partner, which);
        transfer(type, count, 1, 0, partner, which);
        transfer(type, count, 0, 1, partner, which);
      }
      MPI_Type_free(&type);
    }
  }
}

static void random_types(int partner) {
  uint64_t state = 99;
  for (int round = 0; round < 40; ++round) {
    MPI_Datatype inner = make_type((int)(draw(&state) % kTypes), 1 + (int)(draw(&state) % 9));
    MPI_Datatype type;
    MPI_Aint low, extent;
    MPI_Type_get_extent(inner, &low, &extent);
    int blocks = 1 + (int)(draw(&state) % 40), length = 1 + (int)(draw(&state) % 3);
    MPI_Type_create_hvector(blocks, length, extent * (length + 1) + (MPI_Aint)(draw(&state) % 8),
                            inner, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&inner);
    int mode = (int)(draw(&state) % 3);
    transfer(type, 1 + (int)(draw(&state) % 2), mode != 0, mode != 1, partner, 100 + round);
    MPI_Type_free(&type);
  }
}

/* Persistent requests: every start sends what is in memory then. */
static void persistent(int partner) {
  static const int kinds[] = {7, 8, 0, 5, 3, 9};
  for (int k = 0; k < 6; ++k) {
    for (int scale = 2; scale <= 20000; scale *= 100) {
      MPI_Datatype type = make_type(kinds[k], scale);
      MPI_Request requests[2];
      int mode = k % 3;
      (mode == 0 ? MPI_Send_init
       : mode == 1
           ? MPI_Ssend_init
           : MPI_Rsend_init)(memory + kMiddle, 1, type, partner, 30, MPI_COMM_WORLD, &requests[1]);
      MPI_Recv_init(reference + kMiddle, 1, type, partner, 30, MPI_COMM_WORLD, &requests[0]);
      for (int turn = 0; turn < 5; ++turn) {
        fill(memory, kMemory, (uint32_t)(world_rank * 10 + turn));
        memset(reference, 0x44, kMemory);
        MPI_Start(&requests[0]);
        /* Ready mode: the partner's receive is posted before the send starts. */
        MPI_Sendrecv(NULL, 0, MPI_INT, partner, 31, NULL, 0, MPI_INT, partner, 31, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Start(&requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        int bytes = pack_size(type, 1, reference);
        memcpy(arrived, packed, (size_t)bytes);
        fill(reference, kMemory, (uint32_t)(partner * 10 + turn));
        pack_size(type, 1, reference);
        CHECK(0 == memcmp(arrived, packed, (size_t)bytes), "kind %d, scale %d, start %d differs",
              kinds[k], scale, turn);
      }
      MPI_Request_free(&requests[0]);
      MPI_Request_free(&requests[1]);
      MPI_Type_free(&type);
    }
  }
}

int main(int argc, char** argv) {
  start(&argc, &argv, MPI_THREAD_SINGLE);
  memory = malloc(kMemory);
  reference = malloc(kMemory);
  packed = malloc(kMemory);
  arrived = malloc(kMemory);
  CHECK(memory && reference && packed && arrived, "no memory");
  int partner = world_rank ^ 1;
  if (partner < world_size) {
    if (argc > 1 && 0 == strcmp(argv[1], "persistent")) {
      persistent(partner);
    } else {
      every_type(partner);
      random_types(partner);
    }
  }
  return finish();
}
