# One image for nameserver, brokers and gRPC endpoint, with RocketMQ's names and paths in it: docs/containers.md.

FROM python:3.11-slim AS build
WORKDIR /src
# Dependencies first: they change less often than the code.
RUN python3 -m venv --without-pip /opt/staticfire
COPY pyproject.toml constraints.txt ./
RUN python3 -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
      extras = [one for name in ("grpc", "dashboard") for one in p["optional-dependencies"][name]]; \
      print(*p["dependencies"], *extras, sep="\n")' > requirements.txt \
 && python3 -m pip --python /opt/staticfire/bin/python install --no-cache-dir --disable-pip-version-check \
      --constraint constraints.txt --requirement requirements.txt
COPY . .
# The packages that are uninstalled are for parts of rich and cffi that staticfire doesn't use; they take 11 MB.
RUN PIP_CONSTRAINT=constraints.txt python3 -m pip --python /opt/staticfire/bin/python install --no-cache-dir \
      --disable-pip-version-check --no-deps . \
 && python3 -m pip --python /opt/staticfire/bin/python uninstall --yes --quiet pygments markdown-it-py mdurl pycparser \
 && ln -s /opt/staticfire/lib/python3.*/site-packages/staticfire/launch/container_health.py /opt/staticfire/health.py

FROM python:3.11-slim AS system
# An image to run, not to build on: without package managers, their interpreters and libraries, documentation, translations
# and character sets. Paths are those of Python's own image and of Debian's python3.
RUN rm -rf /usr/local/lib/python3.*/site-packages/* /usr/local/bin/pip* /usr/local/bin/idle* /usr/local/include \
      /usr/local/lib/python3.*/ensurepip /usr/local/lib/python3.*/idlelib /usr/local/lib/python3.*/tkinter \
      /usr/local/lib/python3.*/turtledemo /usr/local/lib/python3.*/lib2to3 /usr/local/lib/python3.*/config-* \
      /usr/lib/python3/dist-packages/* /usr/share/python-wheels /usr/bin/pip* /usr/lib/python3.*/lib2to3 \
      /usr/bin/perl* /usr/lib/*/perl* /usr/share/perl* /usr/bin/apt* /usr/lib/apt /usr/lib/*/libapt-* /var/lib/apt \
      /usr/bin/dpkg* /usr/lib/dpkg /usr/share/dpkg /var/lib/dpkg/info /usr/bin/gpgv \
      /usr/share/doc /usr/share/man /usr/share/locale /usr/share/info /usr/share/lintian /usr/share/bash-completion \
      /usr/share/gcc /usr/share/gdb /usr/lib/*/gconv /usr/lib/*/libgnutls* /usr/lib/*/libp11-kit* /usr/lib/*/libhogweed* \
      /usr/lib/*/libnettle* /usr/lib/*/libunistring* /usr/lib/*/libidn2* \
      /usr/lib/python3.*/pydoc_data /usr/lib/python3.*/test /var/cache/* /var/log/* /root/.cache /tmp/*
COPY --from=build /opt/staticfire /opt/staticfire

# What is removed stays in the layers below, so the image begins anew with what is left.
FROM scratch
COPY --from=system / /
# The user and the folders of RocketMQ's image, so that volumes of people's compose files fit. A named volume takes over
# the owner of the folder that it is mounted on.
RUN groupadd --gid 3000 rocketmq \
 && useradd --uid 3000 --gid rocketmq --create-home --home-dir /home/rocketmq rocketmq \
 && cd /home/rocketmq && mkdir -p store logs namesrv rocketmq-5.3.3/bin rocketmq-5.3.3/conf \
 && chown -R rocketmq:rocketmq /home/rocketmq \
 && chmod 1777 /tmp
COPY containers/bin /home/rocketmq/rocketmq-5.3.3/bin
COPY containers/conf /home/rocketmq/rocketmq-5.3.3/conf
# STATICFIRE_EXTERNAL_HOST: what clients are told that come through published ports; brokerIP1 wins. HOME: also for
# containers that run as another user. STATICFIRE_LISTEN: `staticfire up`, a whole cluster in one container, is published.
ENV PATH=/home/rocketmq/rocketmq-5.3.3/bin:/opt/staticfire/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    HOME=/home/rocketmq \
    ROCKETMQ_HOME=/home/rocketmq/rocketmq-5.3.3 \
    STATICFIRE_EXTERNAL_HOST=127.0.0.1 \
    STATICFIRE_LISTEN=0.0.0.0
WORKDIR /home/rocketmq/rocketmq-5.3.3/bin
USER rocketmq
EXPOSE 8081 9876 10909 10911
HEALTHCHECK --interval=3s --timeout=5s --start-period=30s --retries=3 CMD ["staticfire-health"]
CMD ["staticfire", "up"]
