/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026, the Torii authors
 *
 * Active messages: descriptors, sending, and receives that are always posted.
 */
#include "btl_torii.h"

#include <stdlib.h>
#include <string.h>

#include "opal/util/output.h"

#define RECEIVES 64  /* posted at a time */
#define AT_ONCE 2048 /* bytes of a message that sendi puts together on the stack */

OBJ_CLASS_INSTANCE(btl_torii_frag_t, mca_btl_base_descriptor_t, NULL, NULL);

/* --- descriptors --------------------------------------------------------------------------- */

static btl_torii_frag_t* take_frag(btl_torii_endpoint_t* endpoint, size_t size, uint32_t flags) {
  const mca_btl_base_module_t* limits = &btl_torii.super;
  opal_free_list_t* list = size <= limits->btl_eager_limit ? &btl_torii.small : &btl_torii.large;
  btl_torii_frag_t* frag;
  if (OPAL_UNLIKELY(size > limits->btl_max_send_size)) return NULL;
  frag = (btl_torii_frag_t*)opal_free_list_get(list);
  if (OPAL_UNLIKELY(NULL == frag)) return NULL;
  frag->list = list;
  frag->endpoint = endpoint;
  frag->segments[0].seg_addr.pval = frag->base.super.ptr;
  frag->segments[0].seg_len = size;
  frag->base.des_segments = frag->segments;
  frag->base.des_segment_count = 1;
  frag->base.des_flags = flags;
  frag->base.order = MCA_BTL_NO_ORDER;
  return frag;
}

static void give_frag(btl_torii_frag_t* frag) {
  opal_free_list_return(frag->list, &frag->base.super);
}

mca_btl_base_descriptor_t* btl_torii_alloc(mca_btl_base_module_t* btl,
                                           mca_btl_base_endpoint_t* endpoint, uint8_t order,
                                           size_t size, uint32_t flags) {
  btl_torii_frag_t* frag = take_frag(endpoint, size, flags);
  (void)btl;
  (void)order;
  return NULL == frag ? NULL : &frag->base;
}

int btl_torii_free(mca_btl_base_module_t* btl, mca_btl_base_descriptor_t* descriptor) {
  (void)btl;
  give_frag((btl_torii_frag_t*)descriptor);
  return OPAL_SUCCESS;
}

/* Data in one piece stays where it is; any other is packed behind the reserved bytes. */
mca_btl_base_descriptor_t* btl_torii_prepare_src(mca_btl_base_module_t* btl,
                                                 mca_btl_base_endpoint_t* endpoint,
                                                 opal_convertor_t* convertor, uint8_t order,
                                                 size_t reserve, size_t* size, uint32_t flags) {
  const size_t most = btl->btl_max_send_size;
  btl_torii_frag_t* frag;
  struct iovec piece;
  uint32_t pieces = 1;
  (void)order;
  if (reserve > most) return NULL;
  if (*size > most - reserve) *size = most - reserve;
  if (opal_convertor_need_buffers(convertor)) {
    frag = take_frag(endpoint, reserve + *size, flags);
    if (NULL == frag) return NULL;
    piece.iov_base = (char*)frag->segments[0].seg_addr.pval + reserve;
    piece.iov_len = *size;
    if (0 > opal_convertor_pack(convertor, &piece, &pieces, size)) {
      give_frag(frag);
      return NULL;
    }
    frag->segments[0].seg_len = reserve + *size;
    return &frag->base;
  }
  frag = take_frag(endpoint, reserve, flags);
  if (NULL == frag) return NULL;
  piece.iov_base = NULL; /* the convertor says where the data is */
  piece.iov_len = *size;
  if (0 > opal_convertor_pack(convertor, &piece, &pieces, size)) {
    give_frag(frag);
    return NULL;
  }
  frag->segments[1].seg_addr.pval = piece.iov_base;
  frag->segments[1].seg_len = *size;
  frag->base.des_segment_count = 2;
  return &frag->base;
}

/* --- sending ------------------------------------------------------------------------------- */

/* The descriptor's memory is free again. One that is not ours may be gone after its callback. */
static void complete(btl_torii_frag_t* frag, int code, bool call) {
  const bool owned = frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
  if (call && NULL != frag->base.des_cbfunc)
    frag->base.des_cbfunc(&btl_torii.super, frag->endpoint, &frag->base, code);
  if (owned) give_frag(frag);
}

static void sent(void* arg, const torii_result_t* result) {
  complete(arg, btl_torii_code(result->code), true);
}

int btl_torii_send(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                   mca_btl_base_descriptor_t* descriptor, mca_btl_base_tag_t tag) {
  btl_torii_frag_t* frag = (btl_torii_frag_t*)descriptor;
  torii_data_t data = {.layout = TORII_CONTIGUOUS};
  int code;
  (void)btl;
  frag->endpoint = endpoint;
  if (1 == descriptor->des_segment_count) {
    data.base = descriptor->des_segments[0].seg_addr.pval;
    data.bytes = descriptor->des_segments[0].seg_len;
  } else {
    data.layout = TORII_PIECES;
    data.pieces = frag->pieces;
    data.piece_count = 2;
    for (int i = 0; i < 2; ++i) {
      frag->pieces[i].iov_base = descriptor->des_segments[i].seg_addr.pval;
      frag->pieces[i].iov_len = descriptor->des_segments[i].seg_len;
      data.bytes += frag->pieces[i].iov_len;
    }
  }
  code =
      torii_send(btl_torii.port, endpoint->peer, TORII_STANDARD, tag, 0, &data, sent, frag, NULL);
  if (TORII_PENDING == code) return OPAL_SUCCESS;
  if (TORII_OK != code) return btl_torii_code(code);
  complete(frag, OPAL_SUCCESS, descriptor->des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
  return 1;
}

/* A short message leaves from the stack, or not at all: then a descriptor takes its place. */
int btl_torii_sendi(mca_btl_base_module_t* btl, mca_btl_base_endpoint_t* endpoint,
                    opal_convertor_t* convertor, void* header, size_t header_size,
                    size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t** descriptor) {
  char memory[AT_ONCE];
  const size_t bytes = header_size + payload_size;
  btl_torii_frag_t* frag;
  int code;
  if (NULL != descriptor) *descriptor = NULL;
  if (bytes > sizeof memory) {
    if (NULL != descriptor) *descriptor = btl_torii_alloc(btl, endpoint, order, bytes, flags);
    return OPAL_ERR_RESOURCE_BUSY;
  }
  memcpy(memory, header, header_size);
  if (payload_size > 0) {
    struct iovec piece = {.iov_base = memory + header_size, .iov_len = payload_size};
    uint32_t pieces = 1;
    size_t packed = payload_size;
    if (0 > opal_convertor_pack(convertor, &piece, &pieces, &packed) || packed != payload_size)
      return OPAL_ERROR;
  }
  if (OPAL_LIKELY(TORII_OK ==
                  torii_send_now(btl_torii.port, endpoint->peer, tag, 0, memory, bytes)))
    return OPAL_SUCCESS;
  frag = take_frag(endpoint, bytes, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
  if (NULL == frag) return OPAL_ERR_OUT_OF_RESOURCE;
  memcpy(frag->segments[0].seg_addr.pval, memory, bytes);
  frag->base.des_cbfunc = NULL;
  code = btl_torii_send(btl, endpoint, &frag->base, tag);
  if (0 <= code) return OPAL_SUCCESS;
  give_frag(frag);
  return code;
}

/* --- receiving ----------------------------------------------------------------------------- */

static int post(char* memory);

#if OMPI_MAJOR_VERSION >= 5
/* Only the base's own messages, by which it puts and gets over send, ask where they are from. */
static void call(const mca_btl_active_message_callback_t* receiver, const torii_result_t* result,
                 const mca_btl_base_segment_t* segment) {
  const mca_btl_base_tag_t tag = (mca_btl_base_tag_t)result->tag;
  const mca_btl_base_receive_descriptor_t descriptor = {
      .endpoint = tag < MCA_BTL_TAG_BTL ? btl_torii_known_endpoint(result->source) : NULL,
      .des_segments = segment,
      .des_segment_count = 1,
      .tag = tag,
      .cbdata = receiver->cbdata,
  };
  receiver->cbfunc(&btl_torii.super, &descriptor);
}
#else
static void call(const mca_btl_active_message_callback_t* receiver, const torii_result_t* result,
                 mca_btl_base_segment_t* segment) {
  mca_btl_base_descriptor_t descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.des_segments = segment;
  descriptor.des_segment_count = 1;
  receiver->cbfunc(&btl_torii.super, (mca_btl_base_tag_t)result->tag, &descriptor,
                   receiver->cbdata);
}
#endif

static void deliver(const torii_result_t* result, char* memory) {
  mca_btl_base_segment_t segment;
  if (TORII_OK != result->code || result->tag >= MCA_BTL_TAG_MAX ||
      NULL == mca_btl_base_active_message_trigger[result->tag].cbfunc) {
    opal_output(0, "btl/torii: a message of %llu bytes with tag %llu was dropped: %s",
                (unsigned long long)result->sent_bytes, (unsigned long long)result->tag,
                TORII_OK == result->code ? "nobody receives it" : torii_code_text(result->code));
    return;
  }
  segment.seg_addr.pval = memory;
  segment.seg_len = result->bytes;
  call(&mca_btl_base_active_message_trigger[result->tag], result, &segment);
}

/* From any source: ends with an error only if a peer has died or the port closes. */
static void received(void* arg, const torii_result_t* result) {
  if (TORII_ERR_PEER_DEAD != result->code && TORII_ERR_PEER_CLOSED != result->code)
    deliver(result, arg);
  if (OPAL_SUCCESS != post(arg))
    opal_output(0, "btl/torii: a receive cannot be posted again: %s", torii_error());
}

/* The port is in order, so no receive completes in the call. */
static int post(char* memory) {
  const torii_data_t data = {
      .layout = TORII_CONTIGUOUS, .base = memory, .bytes = btl_torii.super.btl_max_send_size};
  torii_result_t result;
  const int code =
      torii_recv(btl_torii.port, NULL, 0, ~0ull, &data, received, memory, NULL, &result);
  return TORII_PENDING == code ? OPAL_SUCCESS : btl_torii_code(code);
}

int btl_torii_start_receives(void) {
  const size_t bytes = btl_torii.super.btl_max_send_size;
  void* memory = NULL;
  if (0 != posix_memalign(&memory, 64, RECEIVES * bytes)) return OPAL_ERR_OUT_OF_RESOURCE;
  btl_torii.receives = memory;
  for (int i = 0; i < RECEIVES; ++i) {
    const int code = post(btl_torii.receives + (size_t)i * bytes);
    if (OPAL_SUCCESS != code) return code;
  }
  return OPAL_SUCCESS;
}
