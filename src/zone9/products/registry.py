"""Which products there are. The command line needs to know this alone, so it costs neither a database nor an engine."""

from zone9.model.ports import Product
from zone9.products.catalog.images import Images
from zone9.products.catalog.kinds import plans, ssh_keys
from zone9.products.catalog.regions import Regions
from zone9.products.networks.product import Networks
from zone9.products.servers.product import Servers


def registry() -> dict[str, Product]:
    """Returns the products by kind, in the order in which they can stand on one another."""
    products: tuple[Product, ...] = (Regions(), plans(), Images(), ssh_keys(), Networks(), Servers())
    return {product.kind: product for product in products}
