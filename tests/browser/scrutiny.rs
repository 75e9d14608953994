//! Scripts that look for mistakes on any page.

/// Lists the text that is too faint on its ground: below 4.5 to 1, as the WCAG count it.
pub(crate) const FAINT: &str = r"
    const rgb = (text) => text.match(/[\d.]+/g).map(Number);
    const linear = (part) => part <= 10.3 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ground = (node) => {
        const color = rgb(getComputedStyle(node).backgroundColor);
        return color[3] === 0 ? ground(node.parentElement) : color;
    };
    const ratio = (node) => {
        const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    return [...document.querySelectorAll('body *')]
        .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
        .filter((node) => !node.disabled && node.checkVisibility() && ratio(node) < 4.5)
        .map((node) => `${ratio(node)}: ${node.outerHTML}`);
";

/// Lists the controls and pictures that have no name for assistive technology.
pub(crate) const NAMELESS: &str = r"
    const text = (node) => node?.textContent.trim();
    const isNamed = (one) => one.ariaLabel || text(one) || [...one.labels ?? []].some(text);
    return [...document.querySelectorAll('button, select, input, canvas, [role=img]')]
        .filter((one) => one.checkVisibility() && !isNamed(one))
        .map((one) => one.outerHTML);
";
