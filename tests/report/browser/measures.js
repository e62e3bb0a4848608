// What tests ask of a page; it is there before the page is.
window.measures = (function () {
  function channels(text) {
    const found = /rgba?\(([^)]+)\)/.exec(text);
    if (!found) return [0, 0, 0, 0];
    const parts = found[1].split(/[ ,/]+/).filter(Boolean).map(Number);
    return [parts[0], parts[1], parts[2], parts[3] === undefined ? 1 : parts[3]];
  }

  function over(top, below) {
    const a = top[3];
    return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)).concat(1);
  }

  function luminance(colour) {
    const [r, g, b] = colour.slice(0, 3).map((each) => {
      const one = each / 255;
      return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function ratio(one, other) {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  }

  function opacity(element) {
    let all = 1;
    for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
    return all;
  }

  // The colour on which an element stands: that of its ancestors, and in a picture of the areas painted before it.
  function behind(element) {
    const layers = [];
    const picture = element.closest("svg");
    if (picture) {
      const whole = element.getBoundingClientRect();
      const [x, y] = [whole.x + whole.width / 2, whole.y + whole.height / 2];
      const box = element.tagName === "text" ? new DOMRect(x, y, 0, 0) : whole;
      for (const area of picture.querySelectorAll("rect")) {
        if (area === element || !(area.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
        if (area.closest("defs, clipPath, pattern, mask")) continue;
        const own = area.getBoundingClientRect();
        if (own.left <= box.left && box.right <= own.right && own.top <= box.top && box.bottom <= own.bottom) {
          const style = getComputedStyle(area);
          const fill = channels(style.fill);
          fill[3] *= opacity(area) * Number(style.fillOpacity);
          layers.unshift(fill);
        }
      }
    }
    for (let at = picture ? picture.parentElement : element; at; at = at.parentElement) {
      layers.push(channels(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  }

  function shown(element) {
    return element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true, contentVisibilityAuto: true });
  }

  // A piece of a bar that took no time is not there to be seen.
  function large(element) {
    const box = element.getBoundingClientRect();
    return element.tagName !== "rect" || (box.width >= 1 && box.height >= 1);
  }

  function name(element) {
    const style = element.getAttribute("class");
    return element.tagName.toLowerCase() + (element.id ? `#${element.id}` : "") + (style ? `.${style}` : "");
  }

  // Every text that can be read, with its contrast to what it stands on.
  function texts() {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.textContent.trim();
      const element = walker.currentNode.parentElement;
      if (!text || element.closest("script, style, title, desc, [aria-hidden=true]") || !shown(element)) continue;
      const style = getComputedStyle(element);
      const ink = channels(element.closest("svg") ? style.fill : style.color);
      ink[3] *= opacity(element);
      const ground = behind(element);
      found.push({ text: text.slice(0, 60), where: name(element), ratio: ratio(over(ink, ground), ground) });
    }
    return found;
  }

  // The contrast of what is drawn to what it is drawn on: the better one of its line and its area.
  function marks(selector) {
    return Array.from(document.querySelectorAll(selector)).filter(shown).filter(large).map((element) => {
      const style = getComputedStyle(element);
      const ground = behind(element);
      const paints = [[style.fill, style.fillOpacity], [style.stroke, style.strokeOpacity]];
      const ratios = paints.filter(([paint]) => paint !== "none").map(([paint, alpha]) => {
        const own = channels(paint);
        own[3] *= opacity(element) * Number(alpha);
        return ratio(over(own, ground), ground);
      });
      return { where: name(element), ratio: Math.max(1, ...ratios) };
    });
  }

  // Whatever reaches beyond the right edge of the page, and does not scroll in a box of its own.
  function wide() {
    const limit = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= limit) return [];
    const found = Array.from(document.body.querySelectorAll("*")).filter((element) => {
      if (element.parentElement.closest(".scroll, pre, svg")) return false;
      return shown(element) && element.getBoundingClientRect().right > limit + 1;
    });
    return [`${document.documentElement.scrollWidth} of ${limit} pixels`, ...found.map(name)];
  }

  // What a keyboard must come to.
  function stops() {
    const those = "a[href], button, summary, input, select, [tabindex]";
    return Array.from(document.querySelectorAll(those)).filter((e) => e.tabIndex >= 0 && !e.disabled && shown(e));
  }

  function focused() {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return { at: stops().indexOf(element), where: name(element), ring: ring || style.boxShadow !== "none" };
  }

  return { texts, marks, wide, stops: () => stops().map(name), focused };
})();
