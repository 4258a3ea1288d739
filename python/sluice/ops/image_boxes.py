"""Boxes in images: rows of [y_min, x_min, y_max, x_max]."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor

_op = _core.op

_draw = _op("DrawBoundingBoxes")


def draw_bounding_boxes(images, boxes, name=None, colors=None):
    """Draws boxes into a batch of images.

    Args:
      images: a batch of float images.
      boxes: the boxes of each image, [batch, boxes, 4], as parts of height and
        width.
      name: the name of the operation.
      colors: the colours of boxes by turns, [n, channels]; None: ten colours.
    """
    if colors is None:
        return _draw(images, boxes, name=name)
    return _op("DrawBoundingBoxesV2")(images, boxes, colors, name=name)


def sample_distorted_bounding_box(
        image_size, bounding_boxes, seed=None, seed2=None,
        min_object_covered=0.1, aspect_ratio_range=None, area_range=None,
        max_attempts=None, use_image_if_no_bounding_boxes=None, name=None):
    """Draws a random box of an image that covers enough of one of its objects.

    Args:
      image_size: the shape of the image, a vector of 3 integers.
      bounding_boxes: the boxes of objects, [1, n, 4] or [n, m, 4], as parts of
        height and width.
      seed: the seed.
      seed2: a second seed.
      min_object_covered: the least part of an object's box that is covered.
      aspect_ratio_range: the range of width / height; defaults to 0.75 to 1.33.
      area_range: the range of the box's part of the image; defaults to 0.05
        to 1.
      max_attempts: the number of attempts, after which the box is the image;
        defaults to 100.
      use_image_if_no_bounding_boxes: whether the image is the box of an object
        if there are none, rather than an error.
      name: the name of the scope.

    Returns:
      (begin, size, box): for `tf.slice`, and the box [1, 1, 4] for
      `draw_bounding_boxes`.
    """
    given = {"seed": seed, "seed2": seed2,
             "aspect_ratio_range": aspect_ratio_range, "area_range": area_range,
             "max_attempts": max_attempts, "use_image_if_no_bounding_boxes":
             use_image_if_no_bounding_boxes}
    with graphs.name_scope(name, "sample_distorted_bounding_box"):
        return _op("SampleDistortedBoundingBoxV2")(
            image_size, bounding_boxes, min_object_covered,
            **{k: v for k, v in given.items() if v is not None})


# ---- Selection of boxes ------------------------------------------------------


def _limits(iou_threshold, score_threshold):
    return (convert_to_tensor(iou_threshold, dtypes.float32,
                              name="iou_threshold"),
            convert_to_tensor(score_threshold, dtypes.float32,
                              name="score_threshold"))


def non_max_suppression(boxes, scores, max_output_size, iou_threshold=0.5,
                        score_threshold=float("-inf"), name=None):
    """Selects boxes of high scores that overlap little.

    Args:
      boxes: the boxes, [n, 4].
      scores: their scores, a vector.
      max_output_size: the largest number of boxes, a scalar int32.
      iou_threshold: the largest overlap (intersection / union) with a selected
        box.
      score_threshold: the score that a selected box exceeds.
      name: the name of the scope.

    Returns:
      The numbers of the selected boxes by falling score, an int32 vector.
    """
    with graphs.name_scope(name, "non_max_suppression"):
        boxes = convert_to_tensor(boxes, name="boxes")
        return _op("NonMaxSuppressionV3")(
            boxes, scores, max_output_size,
            *_limits(iou_threshold, score_threshold))


def non_max_suppression_with_scores(
        boxes, scores, max_output_size, iou_threshold=0.5,
        score_threshold=float("-inf"), soft_nms_sigma=0.0, name=None):
    """Works like `non_max_suppression`, and also returns the scores.

    Args:
      boxes, scores, max_output_size, iou_threshold, score_threshold: see
        `non_max_suppression`.
      soft_nms_sigma: above 0, boxes that overlap a selected one get lower
        scores (by a Gaussian of this width) instead of being left out.
      name: the name of the scope.

    Returns:
      (the numbers of the selected boxes, their scores).
    """
    with graphs.name_scope(name, "non_max_suppression_with_scores"):
        selected, selected_scores, _ = _op("NonMaxSuppressionV5")(
            boxes, scores, max_output_size,
            *_limits(iou_threshold, score_threshold),
            convert_to_tensor(soft_nms_sigma, dtypes.float32,
                              name="soft_nms_sigma"),
            pad_to_max_output_size=False)
        return selected, selected_scores


def non_max_suppression_padded(
        boxes, scores, max_output_size, iou_threshold=0.5,
        score_threshold=float("-inf"), pad_to_max_output_size=False, name=None):
    """Works like `non_max_suppression`, with a result of a fixed size.

    Args:
      boxes, scores, max_output_size, iou_threshold, score_threshold: see
        `non_max_suppression`.
      pad_to_max_output_size: whether to append zeros up to `max_output_size`.
      name: the name of the scope.

    Returns:
      (the numbers of the selected boxes, how many of them are valid).
    """
    with graphs.name_scope(name, "non_max_suppression_padded"):
        return _op("NonMaxSuppressionV4")(
            boxes, scores, max_output_size,
            *_limits(iou_threshold, score_threshold),
            pad_to_max_output_size=pad_to_max_output_size)


def non_max_suppression_overlaps(
        overlaps, scores, max_output_size, overlap_threshold=0.5,
        score_threshold=float("-inf"), name=None):
    """Selects boxes of high scores, given how much they overlap.

    Args:
      overlaps: how much each two boxes overlap, [n, n] floats.
      scores: their scores, a vector.
      max_output_size: the largest number of boxes, a scalar int32.
      overlap_threshold: the largest overlap with a selected box.
      score_threshold: the score that a selected box exceeds.
      name: the name of the scope.

    Returns:
      The numbers of the selected boxes by falling score, an int32 vector.
    """
    with graphs.name_scope(name, "non_max_suppression_overlaps"):
        return _op("NonMaxSuppressionWithOverlaps")(
            overlaps, scores, max_output_size,
            *_limits(overlap_threshold, score_threshold))


def combined_non_max_suppression(
        boxes, scores, max_output_size_per_class, max_total_size,
        iou_threshold=0.5, score_threshold=float("-inf"), pad_per_class=False,
        clip_boxes=True, name=None):
    """Selects boxes for each class of each image, and of these the best.

    Args:
      boxes: the boxes, [batch, n, 1, 4], or [batch, n, classes, 4] with boxes
        for each class.
      scores: the scores, [batch, n, classes].
      max_output_size_per_class: the largest number of boxes of a class.
      max_total_size: the largest number of boxes of an image.
      iou_threshold, score_threshold: see `non_max_suppression`.
      pad_per_class: whether the results have no more boxes than
        `max_output_size_per_class` times the number of classes.
      clip_boxes: whether boxes are limited to [0, 1].
      name: the name of the scope.

    Returns:
      (boxes, [batch, m, 4]; their scores and their classes, [batch, m]; how
      many of each image are valid, [batch]); the rest are zeros.
    """
    with graphs.name_scope(name, "combined_non_max_suppression"):
        return _op("CombinedNonMaxSuppression")(
            boxes, scores,
            convert_to_tensor(max_output_size_per_class, dtypes.int32),
            convert_to_tensor(max_total_size, dtypes.int32),
            *_limits(iou_threshold, score_threshold),
            pad_per_class=pad_per_class, clip_boxes=clip_boxes)
